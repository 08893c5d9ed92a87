#include "common/rpc/listener.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "common/rpc/tcp_connection.h"

namespace tandem::rpc {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

// What the accept in flight holds; the Listener may be gone when it ends. On `strand` only.
struct Accepting : std::enable_shared_from_this<Accepting> {
  Accepting(net::IoThreads& io_threads, const net::Strand& owner, const Options& rpc_options,
            std::function<void(ConnectionPtr)> handler)
      : io(io_threads),
        strand(owner),
        options(rpc_options),
        on_connection(std::move(handler)),
        acceptor(owner.impl().executor),
        pause(owner.impl().executor) {}

  Status Bind(const net::HostPort& where) {
    error_code error;
    tcp::resolver resolver(io.context());
    const auto found =
        resolver.resolve(where.host, std::to_string(where.port), tcp::resolver::passive, error);
    const auto fail = [&](const char* what) {
      return Unavailable("cannot {} {}: {}", what, where.ToString(), error.message());
    };
    if (error || found.empty()) return fail("resolve");
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor.open(endpoint.protocol(), error);
    if (error) return fail("open a socket for");
    acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
    if (!error) bound = {.host = where.host, .port = acceptor.local_endpoint(error).port()};
    return error ? fail("listen on") : OkStatus();
  }

  void Accept() {
    const net::Strand own(io);
    acceptor.async_accept(own.impl().executor, [self = shared_from_this(), own](
                                                   const error_code& error, tcp::socket socket) {
      if (!self->acceptor.is_open()) return;
      if (error) {  // out of descriptors, or a peer that left already
        self->pause.expires_after(kAcceptPause);
        self->pause.async_wait([self](const error_code& stopped) {
          if (!stopped && self->acceptor.is_open()) self->Accept();
        });
        return;
      }
      self->on_connection(std::make_shared<TcpConnection>(own, self->strand, std::move(socket),
                                                          self->options, /*dialed=*/false));
      if (self->acceptor.is_open()) self->Accept();
    });
  }

  net::IoThreads& io;
  net::Strand strand;
  Options options;
  std::function<void(ConnectionPtr)> on_connection;
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  net::HostPort bound;
};

class TcpListener final : public Listener {
 public:
  explicit TcpListener(std::shared_ptr<Accepting> accepting) : accepting_(std::move(accepting)) {}
  ~TcpListener() override {
    error_code ignored;
    accepting_->acceptor.close(ignored);
    accepting_->pause.cancel();
  }
  net::HostPort address() const override { return accepting_->bound; }

 private:
  const std::shared_ptr<Accepting> accepting_;  // shared with the accept in flight
};

// One try to connect. On `own` only, the strand of the connection to be.
struct Dialing : std::enable_shared_from_this<Dialing> {
  Dialing(net::IoThreads& io, const net::Strand& owner_strand, net::HostPort where,
          const Options& rpc_options, std::function<void(StatusOr<ConnectionPtr>)> callback)
      : owner(owner_strand),
        own(io),
        address(std::move(where)),
        options(rpc_options),
        done(std::move(callback)),
        resolver(own.impl().executor),
        socket(own.impl().executor),
        timer(own.impl().executor) {}

  void Begin() {
    timer.expires_after(options.connect_timeout);
    timer.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->Fail("no answer");
    });
    resolver.async_resolve(
        address.host, std::to_string(address.port),
        [self = shared_from_this()](const error_code& error, tcp::resolver::results_type found) {
          if (self->done == nullptr) return;
          if (error) return self->Fail(error.message());
          self->Connect(std::move(found));
        });
  }

  void Connect(tcp::resolver::results_type found) {
    asio::async_connect(
        socket, found, [self = shared_from_this()](const error_code& error, const tcp::endpoint&) {
          if (self->done == nullptr) return;
          if (error) return self->Fail(error.message());
          error_code ignored;
          if (self->socket.local_endpoint(ignored) == self->socket.remote_endpoint(ignored)) {
            // Where nobody listens on a port of the ephemeral range, TCP may connect the socket to
            // itself, which would keep that port from its owner.
            return self->Fail("connected to itself");
          }
          self->Finish(ConnectionPtr(std::make_shared<TcpConnection>(
              self->own, self->owner, std::move(self->socket), self->options, /*dialed=*/true)));
        });
  }

  void Fail(std::string_view why) {
    if (done == nullptr) return;
    Finish(Unavailable("cannot connect to {}: {}", address.ToString(), why));
    resolver.cancel();
    error_code ignored;
    socket.close(ignored);
  }

  void Finish(StatusOr<ConnectionPtr> result) {
    timer.cancel();
    owner.Post([callback = std::exchange(done, nullptr), result = std::move(result)]() mutable {
      callback(std::move(result));
    });
  }

  net::Strand owner;
  net::Strand own;
  net::HostPort address;
  Options options;
  std::function<void(StatusOr<ConnectionPtr>)> done;  // null once called
  tcp::resolver resolver;
  tcp::socket socket;
  asio::steady_timer timer;
};

}  // namespace

StatusOr<std::unique_ptr<Listener>> Listener::Open(
    net::IoThreads& io, const net::Strand& strand, const net::HostPort& address,
    const Options& options, std::function<void(ConnectionPtr)> on_connection) {
  auto accepting = std::make_shared<Accepting>(io, strand, options, std::move(on_connection));
  TANDEM_RETURN_IF_ERROR(accepting->Bind(address));
  strand.Post([accepting] {
    if (accepting->acceptor.is_open()) accepting->Accept();
  });
  return std::unique_ptr<Listener>(std::make_unique<TcpListener>(std::move(accepting)));
}

void Dial(net::IoThreads& io, const net::Strand& strand, const net::HostPort& address,
          const Options& options, std::function<void(StatusOr<ConnectionPtr>)> done) {
  auto dialing = std::make_shared<Dialing>(io, strand, address, options, std::move(done));
  dialing->own.Post([dialing] { dialing->Begin(); });
}

}  // namespace tandem::rpc
