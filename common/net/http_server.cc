#include "common/net/http_server.h"

#include <fmt/format.h>

#include <boost/asio/ip/tcp.hpp>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "common/net/http_connection.h"
#include "common/net/strand_impl.h"

namespace tandem::net {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

// Connections being told that their address has too many; beyond them they are just closed.
constexpr std::size_t kRefusingMax = 64;

// Who counts as one client: an address, or an IPv6 network.
std::string ClientOf(const tcp::socket& socket) {
  error_code ec;
  const auto endpoint = socket.remote_endpoint(ec);
  if (ec) return "unknown";
  const auto address = endpoint.address();
  if (address.is_v4()) return address.to_string();
  const auto v6 = address.to_v6();
  if (v6.is_v4_mapped()) {
    return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, v6).to_string();
  }
  const auto bytes = v6.to_bytes();
  return std::string(bytes.begin(), bytes.begin() + 8);
}

// Shared by the server and the operations in flight.
struct State : std::enable_shared_from_this<State> {
  State(const Strand& s, HttpHandler& h, const HttpServerOptions& o)
      : strand(s),
        handler(h),
        options(o),
        bodies(std::make_shared<ByteBudget>(o.max_bodies_bytes)),
        acceptor(s.impl().executor),
        retry(s) {}

  void Accept();
  void OnAccepted(const error_code& ec, tcp::socket socket);
  void Ended(const std::shared_ptr<HttpConnection>& connection);
  void MaybeStopped();
  bool Full() const { return connections.size() - refusing >= options.max_connections; }
  // Of those between requests; null: all answer one, or wait for their first.
  std::shared_ptr<HttpConnection> LongestIdle() const;

  Strand strand;
  HttpHandler& handler;
  HttpServerOptions options;
  std::shared_ptr<ByteBudget> bodies;  // shared with the bodies that handlers keep
  tcp::acceptor acceptor;
  Timer retry;
  HostPort address;
  bool accepting = false;  // an accept is outstanding
  bool stopping = false;
  Closure stopped;
  // Each with its client; empty: it is being refused.
  std::unordered_map<std::shared_ptr<HttpConnection>, std::string> connections;
  std::map<std::string, std::size_t> per_client;  // connections, at least one
  std::size_t refusing = 0;
  std::size_t refused = 0;
};

std::shared_ptr<HttpConnection> State::LongestIdle() const {
  std::shared_ptr<HttpConnection> longest;
  for (const auto& [connection, client] : connections) {
    if (connection->idle_since() == kNever) continue;
    if (!longest || connection->idle_since() < longest->idle_since()) longest = connection;
  }
  return longest;
}

// Clients that keep idle connections may not keep others out: the last place is always taken from
// one of them.
void State::Accept() {
  if (accepting || stopping) return;
  if (Full()) {
    if (auto idle = LongestIdle()) idle->Close(GoneReason::kStopped);  // Ended() comes back here
    return;
  }
  accepting = true;
  acceptor.async_accept([self = shared_from_this()](const error_code& ec, tcp::socket socket) {
    self->OnAccepted(ec, std::move(socket));
  });
}

void State::OnAccepted(const error_code& ec, tcp::socket socket) {
  accepting = false;
  if (stopping) return;
  if (ec) {
    // Out of file descriptors, or the client is gone already: look again soon.
    retry.Set(SteadyNow() + std::chrono::milliseconds(50), [weak = weak_from_this()] {
      if (auto self = weak.lock()) self->Accept();
    });
    return;
  }
  std::string client = ClientOf(socket);
  auto of_client = per_client.find(client);
  const bool too_many =
      of_client != per_client.end() && of_client->second >= options.max_connections_per_address;
  if (too_many) ++refused;
  if (too_many && refusing >= kRefusingMax) {
    error_code ignored;
    socket.close(ignored);
    return Accept();
  }
  auto slot = std::make_shared<std::weak_ptr<HttpConnection>>();  // filled below
  HttpConnection::ServerSide server;
  server.ended = [weak = weak_from_this(), slot] {
    if (auto self = weak.lock()) self->Ended(slot->lock());
  };
  // Later: the connection is in the middle of something.
  server.idle = [weak = weak_from_this()] {
    auto self = weak.lock();
    if (self == nullptr || self->accepting) return;
    self->strand.Post([weak] {
      if (auto later = weak.lock()) later->Accept();
    });
  };
  server.full = [weak = weak_from_this()] {
    auto self = weak.lock();
    return self == nullptr || self->Full();
  };
  server.bodies = bodies;
  auto connection = std::make_shared<HttpConnection>(std::move(socket), strand, handler, options,
                                                     std::move(server));
  *slot = connection;
  if (too_many) {
    ++refusing;
    connections.emplace(connection, "");
    connection->Refuse(
        {429, fmt::format("{} connections from one address are open, the limit is {}",
                          of_client->second, options.max_connections_per_address)});
  } else {
    ++per_client[client];
    connections.emplace(connection, std::move(client));
    connection->Start();
  }
  Accept();
}

void State::Ended(const std::shared_ptr<HttpConnection>& connection) {
  if (auto ended = connections.extract(connection); !ended.empty()) {
    if (ended.mapped().empty()) {
      --refusing;
    } else if (--per_client[ended.mapped()] == 0) {
      per_client.erase(ended.mapped());
    }
  }
  Accept();
  MaybeStopped();
}

void State::MaybeStopped() {
  if (stopping && connections.empty() && stopped) std::exchange(stopped, Closure())();
}

class Server : public HttpServer {
 public:
  explicit Server(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~Server() override {
    state_->stopped = Closure();
    Close();
  }

  HostPort address() const override { return state_->address; }
  HttpServerCounts counts() const override {
    HttpServerCounts counts{.connections = state_->connections.size(),
                            .refused = state_->refused,
                            .body_bytes = state_->bodies->used()};
    for (const auto& [connection, client] : state_->connections)
      counts.exchanges += connection->answering();
    return counts;
  }

  void Stop(Closure stopped) override {
    state_->stopped = std::move(stopped);
    CloseAcceptor();
    auto connections = state_->connections;
    for (const auto& [connection, client] : connections) connection->Stop();
    state_->strand.Post([state = state_] { state->MaybeStopped(); });
  }

  void Close() override {
    CloseAcceptor();
    auto connections = state_->connections;
    for (const auto& [connection, client] : connections) connection->Close(GoneReason::kStopped);
  }

 private:
  void CloseAcceptor() {
    state_->stopping = true;
    state_->retry.Cancel();
    error_code ignored;
    state_->acceptor.close(ignored);
  }

  std::shared_ptr<State> state_;
};

Status Bind(tcp::acceptor& acceptor, const tcp::endpoint& endpoint) {
  error_code ec;
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(boost::asio::socket_base::max_listen_connections, ec);
  if (!ec) return OkStatus();
  error_code ignored;
  acceptor.close(ignored);
  return Unavailable("{}", ec.message());
}

}  // namespace

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Open(IoThreads& io, const Strand& strand,
                                                       const HostPort& address,
                                                       HttpHandler& handler,
                                                       const HttpServerOptions& options) {
  auto state = std::make_shared<State>(strand, handler, options);
  error_code ec;
  tcp::resolver resolver(io.context());
  auto endpoints = resolver.resolve(address.host, std::to_string(address.port),
                                    tcp::resolver::passive | tcp::resolver::numeric_service, ec);
  if (ec) return Unavailable("cannot listen on {}: {}", address.ToString(), ec.message());
  Status bound = Unavailable("no address");
  for (const auto& entry : endpoints) {
    bound = Bind(state->acceptor, entry.endpoint());
    if (bound.ok()) break;
  }
  if (!bound.ok()) return Annotate(bound, "cannot listen on " + address.ToString());
  state->address = {address.host, state->acceptor.local_endpoint(ec).port()};
  strand.Post([state] { state->Accept(); });
  return std::make_unique<Server>(std::move(state));
}

}  // namespace tandem::net
