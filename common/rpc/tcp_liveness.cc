// Heartbeats, silence and pings of a TcpConnection.
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "common/rpc/tcp_connection.h"

namespace tandem::rpc {
namespace {

using boost::system::error_code;

}  // namespace

void TcpConnection::ScheduleHeartbeat() {
  heartbeat_timer_.expires_after(options_.heartbeat_every);
  heartbeat_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (error || self->state_ != State::kOpen) return;
    self->SendHeartbeat();
    self->ScheduleHeartbeat();
  });
}

void TcpConnection::SendHeartbeat() {
  if (!has_heartbeat_) {
    Queue(proto::Encode(handoff::Heartbeat{}));
    return;
  }
  if (heartbeat_asked_) {
    // The owner is busy: its numbers come later, the sign of life does not. But nobody vouches for
    // an owner that is stuck.
    if (SteadyNow() - heartbeat_asked_at_ < options_.owner_limit)
      Queue(proto::Encode(handoff::Ping{.nonce = 0}));
    return;
  }
  heartbeat_asked_ = true;
  heartbeat_asked_at_ = SteadyNow();
  owner_.Post([self = shared_from_this()] {
    if (self->handlers_ == nullptr) return;
    self->io_.Post([self, frame = proto::Encode(self->handlers_->heartbeat())]() mutable {
      self->heartbeat_asked_ = false;
      if (self->state_ == State::kOpen) self->Queue(std::move(frame));
    });
  });
}

void TcpConnection::ScheduleSilenceCheck() {
  silence_timer_.expires_at(
      std::chrono::time_point_cast<std::chrono::steady_clock::duration>(silence_.deadline()));
  silence_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (error || self->state_ != State::kOpen) return;
    const Time now = SteadyNow();
    if (self->reading_paused_) {
      self->silence_.Heard(now);  // it is we who do not listen
    } else if (self->silence_.IsSilent(now)) {
      self->Finish(DeadlineExceeded("{}: nothing heard for {} ms", self->remote_,
                                    ToMillis(self->options_.silence_limit)));
      return;
    }
    self->ScheduleSilenceCheck();
  });
}

void TcpConnection::Ping(Duration limit, std::function<void(bool)> answered) {
  io_.Post([self = shared_from_this(), limit, answered = std::move(answered)]() mutable {
    if (self->state_ != State::kOpen) {
      self->owner_.Post([answered = std::move(answered)] { answered(false); });
      return;
    }
    const std::uint64_t nonce = self->next_nonce_++;
    auto timer = std::make_unique<boost::asio::steady_timer>(self->io_.impl().executor, limit);
    timer->async_wait([self, nonce](const error_code& error) {
      auto it = self->pings_.find(nonce);
      if (error || it == self->pings_.end()) return;
      self->owner_.Post([answered = std::move(it->second.answered)] { answered(false); });
      self->pings_.erase(it);
    });
    self->pings_.emplace(nonce, PendingPing{std::move(answered), std::move(timer)});
    self->Queue(proto::Encode(handoff::Ping{.nonce = nonce}));
  });
}

}  // namespace tandem::rpc
