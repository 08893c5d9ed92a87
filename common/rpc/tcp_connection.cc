#include "common/rpc/tcp_connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "common/base/check.h"
#include "common/log/log.h"

namespace tandem::rpc {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::size_t kMaxHelloFrame = std::size_t{64} << 10;
constexpr std::size_t kMaxFramesInOneWrite = 64;
constexpr Duration kClosingLimit = std::chrono::seconds(1);

std::string WithLength(const std::string& frame) {
  const auto size = static_cast<std::uint32_t>(frame.size());
  std::string out;
  out.reserve(4 + frame.size());
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(size >> shift);
  return out += frame;
}

std::string Describe(const TcpConnection::Socket& socket) {
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return "a peer that left";
  return net::HostPort{endpoint.address().to_string(), endpoint.port()}.ToString();
}

}  // namespace

TcpConnection::TcpConnection(net::Strand io, net::Strand owner, Socket socket,
                             const Options& options, bool dialed)
    : io_(std::move(io)),
      owner_(std::move(owner)),
      options_(options),
      dialed_(dialed),
      remote_(Describe(socket)),
      socket_(std::move(socket)),
      heartbeat_timer_(io_.impl().executor),
      silence_timer_(io_.impl().executor),
      close_timer_(io_.impl().executor) {
  error_code ignored;  // only a slower connection
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

void TcpConnection::Start(handoff::Hello own_hello, Handlers handlers) {
  TANDEM_CHECK(handlers_ == nullptr && handlers.on_hello && handlers.on_message &&
               handlers.on_closed);
  handlers_ = std::make_shared<Handlers>(std::move(handlers));
  has_heartbeat_ = static_cast<bool>(handlers_->heartbeat);
  io_.Post([self = shared_from_this(), hello = std::move(own_hello)]() mutable {
    self->own_hello_ = std::move(hello);
    self->Begin();
  });
}

void TcpConnection::Begin() {
  if (state_ != State::kNew) return;  // Close() came first
  state_ = State::kHello;
  silence_.Heard(SteadyNow());
  if (dialed_) Queue(proto::Encode(own_hello_));
  close_timer_.expires_after(options_.hello_timeout);
  close_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (error || (self->state_ != State::kHello && self->state_ != State::kDeciding)) return;
    self->Finish(Unavailable("{}: no hello within {} ms", self->remote_,
                             ToMillis(self->options_.hello_timeout)));
  });
  ReadHeader();
}

// --- reading

void TcpConnection::ReadHeader() {
  asio::async_read(socket_, asio::buffer(header_),
                   [self = shared_from_this()](const error_code& error, std::size_t) {
                     if (self->state_ == State::kClosed) return;
                     if (error) {
                       self->Lost(error.message());
                       return;
                     }
                     std::uint32_t size = 0;
                     for (int i = 3; i >= 0; --i) {
                       size = size << 8 | self->header_[static_cast<std::size_t>(i)];
                     }
                     self->ReadBody(size);
                   });
}

void TcpConnection::ReadBody(std::uint32_t size) {
  silence_.Heard(SteadyNow());
  const std::size_t limit = state_ == State::kHello
                                ? std::min(kMaxHelloFrame, options_.max_frame_bytes)
                                : options_.max_frame_bytes;
  if (size > limit) {
    Finish(InvalidArgument("{}: a frame of {} bytes, the limit is {}", remote_, size, limit));
    return;
  }
  body_.resize(size);
  asio::async_read(socket_, asio::buffer(body_),
                   [self = shared_from_this()](const error_code& error, std::size_t) {
                     if (self->state_ == State::kClosed) return;
                     if (error) {
                       self->Lost(error.message());
                       return;
                     }
                     self->silence_.Heard(SteadyNow());
                     self->OnFrame();
                   });
}

void TcpConnection::OnFrame() {
  if (state_ == State::kClosing) {  // only waits for the peer's end
    ReadHeader();
    return;
  }
  const StatusOr<proto::Frame> frame = proto::ParseFrame(body_);
  if (!frame.ok()) {
    Finish(Annotate(frame.status(), remote_));
    return;
  }
  if (frame->type == proto::kUnknownType) {
    const StatusOr<std::string> type = proto::DecodeUnknown(*frame);
    log::Warning("rpc.unknown_there", "peer={} type={}", remote_,
                 type.ok() ? *type : type.status().ToString());
    ReadHeader();
    return;
  }
  StatusOr<handoff::Message> message = proto::Decode(*frame);
  if (message.ok()) {
    OnMessage(*std::move(message));
  } else if (message.status().code() == absl::StatusCode::kUnimplemented &&
             state_ == State::kOpen) {
    log::Warning("rpc.unknown_here", "peer={} type={}", remote_, frame->type);
    Queue(proto::EncodeUnknown(frame->type));
    ReadHeader();
  } else {
    Finish(Annotate(message.status(), remote_));
  }
}

void TcpConnection::OnMessage(handoff::Message message) {
  if (const auto* refused = std::get_if<handoff::HelloRefused>(&message)) {
    Finish(FailedPrecondition("{} refused {}: {}", remote_, refused->field, refused->reason));
    return;
  }
  if (auto* hello = std::get_if<handoff::Hello>(&message)) {
    OnHello(std::move(*hello));
    return;
  }
  if (const auto* heartbeat = std::get_if<handoff::Heartbeat>(&message)) {
    peer_drains_ = heartbeat->draining;
  }
  if (state_ != State::kOpen) {
    Finish(InvalidArgument("{}: {} before Hello", remote_, handoff::MessageName(message)));
    return;
  }
  if (const auto* ping = std::get_if<handoff::Ping>(&message)) {
    Queue(proto::Encode(handoff::Pong{.nonce = ping->nonce}));
    ReadHeader();
    return;
  }
  if (const auto* pong = std::get_if<handoff::Pong>(&message)) {
    if (auto it = pings_.find(pong->nonce); it != pings_.end()) {
      owner_.Post([answered = std::move(it->second.answered)] { answered(true); });
      pings_.erase(it);
    }
    ReadHeader();
    return;
  }
  Deliver(std::move(message));
}

void TcpConnection::OnHello(handoff::Hello hello) {
  if (state_ != State::kHello) {
    Finish(InvalidArgument("{}: a second Hello", remote_));
    return;
  }
  state_ = State::kDeciding;  // reads on after Accept()
  if (hello.wire_lowest > own_hello_.wire_highest || own_hello_.wire_lowest > hello.wire_highest) {
    RefuseNow("wire",
              fmt::format("versions {}..{} there, {}..{} here", hello.wire_lowest,
                          hello.wire_highest, own_hello_.wire_lowest, own_hello_.wire_highest));
    return;
  }
  owner_.Post([self = shared_from_this(), hello = std::move(hello)] {
    if (self->handlers_ != nullptr) self->handlers_->on_hello(hello);
  });
}

void TcpConnection::Deliver(handoff::Message message) {
  // Counted before it is posted; whoever takes the count from the limit to below it resumes.
  const bool full = unhandled_.fetch_add(1) + 1 == options_.max_unhandled_messages;
  reading_paused_ = full;
  owner_.Post([self = shared_from_this(), message = std::move(message)]() mutable {
    // A copy, since the handler may end in on_closed.
    if (const std::shared_ptr<Handlers> handlers = self->handlers_) {
      handlers->on_message(std::move(message));
    }
    if (self->unhandled_.fetch_sub(1) != self->options_.max_unhandled_messages) return;
    self->io_.Post([self] {
      self->reading_paused_ = false;
      self->silence_.Heard(SteadyNow());
      if (self->state_ == State::kOpen || self->state_ == State::kClosing) self->ReadHeader();
    });
  });
  if (!full) ReadHeader();
}

// --- hello

void TcpConnection::Accept() {
  io_.Post([self = shared_from_this()] {
    if (self->state_ != State::kDeciding) return;  // closed meanwhile
    self->state_ = State::kOpen;
    if (!self->dialed_) self->Queue(proto::Encode(self->own_hello_));
    self->silence_.Heard(SteadyNow());
    self->ScheduleHeartbeat();
    self->ScheduleSilenceCheck();
    self->ReadHeader();
  });
}

void TcpConnection::Refuse(std::string field, std::string reason) {
  io_.Post(
      [self = shared_from_this(), field = std::move(field), reason = std::move(reason)]() mutable {
        if (self->state_ == State::kDeciding) self->RefuseNow(std::move(field), std::move(reason));
      });
}

void TcpConnection::RefuseNow(std::string field, std::string reason) {
  Status status = FailedPrecondition("{} is refused: {}: {}", remote_, field, reason);
  Queue(
      proto::Encode(handoff::HelloRefused{.field = std::move(field), .reason = std::move(reason)}));
  CloseAfterWriting(std::move(status));
  ReadHeader();
}

// --- writing

void TcpConnection::Send(const handoff::Message& message) {
  io_.Post([self = shared_from_this(), frame = proto::Encode(message)]() mutable {
    if (self->state_ == State::kOpen) self->Queue(std::move(frame));
  });
}

void TcpConnection::Queue(std::string frame) {
  if (frame.size() > options_.max_frame_bytes) {
    Finish(Internal("{}: own frame of {} bytes is over the limit of {}", remote_, frame.size(),
                    options_.max_frame_bytes));
    return;
  }
  unsent_bytes_ += frame.size() + 4;
  if (unsent_bytes_ > options_.max_unsent_bytes) {
    Finish(ResourceExhausted("{}: {} bytes wait to be sent, the peer does not read", remote_,
                             unsent_bytes_));
    return;
  }
  queued_.push_back(WithLength(frame));
  if (in_flight_.empty()) Write();
}

void TcpConnection::Write() {
  while (!queued_.empty() && in_flight_.size() < kMaxFramesInOneWrite) {
    in_flight_.push_back(std::move(queued_.front()));
    queued_.pop_front();
  }
  std::vector<asio::const_buffer> buffers;
  buffers.reserve(in_flight_.size());
  for (const std::string& frame : in_flight_) buffers.push_back(asio::buffer(frame));
  asio::async_write(socket_, buffers,
                    [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                      if (self->state_ == State::kClosed) return;
                      if (error) {
                        self->Lost(error.message());
                        return;
                      }
                      self->unsent_bytes_ -= bytes;
                      self->in_flight_.clear();
                      if (!self->queued_.empty()) {
                        self->Write();
                      } else if (self->state_ == State::kClosing) {
                        self->EndSending();
                      }
                    });
}

// --- closing

void TcpConnection::Close(Status reason) {
  io_.Post([self = shared_from_this(), reason = std::move(reason)]() mutable {
    if (self->state_ == State::kClosing || self->state_ == State::kClosed) return;
    const bool was_reading =
        self->state_ != State::kNew && self->state_ != State::kDeciding && !self->reading_paused_;
    self->CloseAfterWriting(std::move(reason));
    if (!was_reading && !self->reading_paused_ && self->state_ == State::kClosing) {
      self->ReadHeader();
    }
  });
}

void TcpConnection::CloseAfterWriting(Status reason) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosing;
  close_reason_ = std::move(reason);
  heartbeat_timer_.cancel();
  silence_timer_.cancel();
  close_timer_.expires_after(kClosingLimit);
  close_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (!error && self->state_ == State::kClosing) self->Finish(OkStatus());
  });
  if (in_flight_.empty()) EndSending();
}

// The peer reads to our end and closes; its end ends the wait.
void TcpConnection::EndSending() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
}

void TcpConnection::Lost(const std::string& why) {
  Finish(peer_drains_ ? Cancelled("{}: has drained and ended", remote_)
                      : Unavailable("{}: connection lost: {}", remote_, why));
}

void TcpConnection::Finish(Status reason) {
  if (state_ == State::kClosed) return;
  if (state_ == State::kClosing) reason = std::move(close_reason_);
  state_ = State::kClosed;
  heartbeat_timer_.cancel();
  silence_timer_.cancel();
  close_timer_.cancel();
  for (auto& [nonce, ping] : pings_) {
    owner_.Post([answered = std::move(ping.answered)] { answered(false); });
  }
  pings_.clear();
  queued_.clear();
  error_code ignored;
  socket_.close(ignored);
  owner_.Post([self = shared_from_this(), reason = std::move(reason)] {
    const std::shared_ptr<Handlers> handlers = std::exchange(self->handlers_, nullptr);
    if (handlers != nullptr) handlers->on_closed(reason);
  });
}

}  // namespace tandem::rpc
