#include "router/node_link.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/log/log.h"
#include "common/rpc/listener.h"

namespace tandem::router {
namespace {

handoff::Loss LossOf(const Status& reason) {
  switch (reason.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      return handoff::Loss::kSilent;
    case absl::StatusCode::kUnavailable:
      return handoff::Loss::kDied;
    default:
      return handoff::Loss::kClosed;
  }
}

}  // namespace

NodeLink::NodeLink(net::IoThreads& io, const net::Strand& strand, net::HostPort address,
                   const rpc::Options& options, handoff::Hello own_hello, Events events)
    : io_(io),
      strand_(strand),
      address_(std::move(address)),
      options_(options),
      own_hello_(std::move(own_hello)),
      events_(std::move(events)),
      retry_(strand),
      backoff_(handoff::kDialBackoffMin),
      last_error_(Unavailable("{} was not dialed yet", address_.ToString())),
      alive_(std::make_shared<int>(0)) {}

NodeLink::~NodeLink() { Stop(); }

void NodeLink::Start() { Dial(); }

void NodeLink::Stop() {
  stopped_ = true;
  alive_.reset();
  retry_.Cancel();
  accepted_ = false;
  if (auto connection = std::exchange(connection_, nullptr)) {
    connection->Close(Cancelled("the router stops"));
  }
}

void NodeLink::Dial() {
  rpc::Dial(io_, strand_, address_, options_,
            [this, alive = std::weak_ptr(alive_)](StatusOr<rpc::ConnectionPtr> connection) {
              if (alive.expired()) {
                if (connection.ok()) (*connection)->Close(Cancelled("the router stops"));
                return;
              }
              OnDialed(std::move(connection));
            });
}

void NodeLink::OnDialed(StatusOr<rpc::ConnectionPtr> connection) {
  if (!connection.ok()) return OnClosed(connection.status());
  connection_ = *std::move(connection);
  std::weak_ptr<int> alive = alive_;
  // A late call of an older connection finds another one here.
  const rpc::Connection* self = connection_.get();
  rpc::Connection::Handlers handlers;
  handlers.on_hello = [this, alive, self](const handoff::Hello& hello) {
    if (!alive.expired() && connection_.get() == self) events_.on_hello(hello);
  };
  handlers.on_message = [this, alive, self](handoff::Message message) {
    if (alive.expired() || connection_.get() != self || !accepted_) return;
    events_.on_message(std::move(message));
  };
  handlers.on_closed = [this, alive, self](const Status& reason) {
    if (!alive.expired() && connection_.get() == self) OnClosed(reason);
  };
  connection_->Start(own_hello_, std::move(handlers));
}

void NodeLink::OnClosed(const Status& reason) {
  connection_ = nullptr;
  last_error_ = reason;
  const bool was_accepted = std::exchange(accepted_, false);
  if (was_accepted) {
    log::Warning("router.node.lost", "address={} reason=\"{}\"", address_.ToString(),
                 FromAbsl(reason.message()));
    reported_ = false;
    backoff_ = handoff::kDialBackoffMin;
  } else if (!std::exchange(reported_, true)) {
    log::Warning("router.node.unreachable", "address={} reason=\"{}\"", address_.ToString(),
                 FromAbsl(reason.message()));
  }
  DialLater();
  if (was_accepted) events_.on_lost(LossOf(reason), reason);
}

void NodeLink::DialLater() {
  if (stopped_) return;
  retry_.Set(SteadyNow() + backoff_, [this] { Dial(); });
  backoff_ = std::min(backoff_ * 2, handoff::kDialBackoffMax);
}

void NodeLink::Accept() {
  if (connection_ == nullptr) return;
  accepted_ = true;
  reported_ = false;
  backoff_ = handoff::kDialBackoffMin;
  connection_->Accept();
}

void NodeLink::Refuse(std::string field, std::string reason) {
  if (connection_ != nullptr) connection_->Refuse(std::move(field), std::move(reason));
}

void NodeLink::Drop(Status reason) {
  if (connection_ != nullptr) connection_->Close(std::move(reason));
}

void NodeLink::Send(const handoff::Message& message) {
  if (accepted_ && connection_ != nullptr) connection_->Send(message);
}

void NodeLink::Ping(Duration limit, std::function<void(bool)> answered) {
  if (connection_ == nullptr)
    return strand_.Post([answered = std::move(answered)] { answered(false); });
  connection_->Ping(limit, std::move(answered));
}

}  // namespace tandem::router
