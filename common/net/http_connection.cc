#include "common/net/http_connection.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <utility>

#include "common/base/check.h"

namespace tandem::net {
namespace {

using boost::system::error_code;
constexpr std::size_t kReadBytes = 16 << 10;

std::string PeerName(const HttpConnection::Socket& socket) {
  error_code ec;
  auto endpoint = socket.remote_endpoint(ec);
  if (ec) return "unknown";
  return HostPort{endpoint.address().to_string(), endpoint.port()}.ToString();
}

}  // namespace

class HttpConnection::Exchange : public HttpExchange {
 public:
  Exchange(HttpConnection* connection, HttpRequest request, ByteBudget::Hold hold)
      : connection_(connection),
        request_(std::move(request)),
        hold_(std::move(hold)),
        peer_(connection->peer_) {}

  const HttpRequest& request() const override { return request_; }
  HttpBody TakeBody() override { return {std::exchange(request_.body, {}), std::move(hold_)}; }
  std::string_view peer() const override { return peer_; }
  bool open() const override { return connection_ != nullptr; }

  void Respond(HttpResponse response) override {
    if (connection_ == nullptr) return;
    TANDEM_CHECK(!streaming_);
    if (connection_->server_.full()) connection_->close_after_ = true;
    connection_->SendResponse(std::move(response), &request_);
    Done();
  }

  void StartStream(HttpResponse head) override {
    if (connection_ == nullptr) return;
    TANDEM_CHECK(!streaming_);
    streaming_ = true;
    connection_->AddCommonHeaders(head, request_);
    if (request_.http_1_0) connection_->close_after_ = true;  // its end is the connection's
    if (connection_->server_.full()) connection_->close_after_ = true;
    connection_->Send(FormatResponseHead(head,
                                         request_.http_1_0 ? "" : "transfer-encoding: chunked\r\n",
                                         !connection_->close_after_));
  }

  void WriteEvent(std::string_view event) override {
    if (connection_ == nullptr || event.empty()) return;
    TANDEM_CHECK(streaming_);
    if (request_.http_1_0) {
      connection_->Send(event);
    } else {
      connection_->Send(fmt::format("{:x}\r\n{}\r\n", event.size(), event));
    }
    if (connection_ != nullptr &&
        connection_->out_.size() > connection_->options_.max_unsent_bytes) {
      connection_->Close(GoneReason::kSlowReader);
    }
  }

  void EndStream() override {
    if (connection_ == nullptr) return;
    TANDEM_CHECK(streaming_);
    if (!request_.http_1_0) connection_->Send("0\r\n\r\n");
    Done();
  }

  std::size_t unsent_bytes() const override {
    if (connection_ == nullptr) return 0;
    return connection_->out_.size() + connection_->writing_.size() - connection_->written_;
  }

  void OnTaken(std::function<void()> taken) override {
    if (connection_ != nullptr) taken_ = std::move(taken);
  }

  void OnGone(std::function<void(GoneReason)> gone) override {
    if (connection_ != nullptr) gone_ = std::move(gone);
  }

  // The socket took bytes.
  void Taken() {
    if (!taken_) return;
    auto taken = std::exchange(taken_, nullptr);  // it may end the exchange
    taken();
    if (connection_ != nullptr && !taken_) taken_ = std::move(taken);
  }

  // The connection ends before the answer.
  void Gone(GoneReason reason) {
    HttpConnection* connection = std::exchange(connection_, nullptr);
    taken_ = nullptr;
    if (!gone_) return;
    connection->strand_.Post([gone = std::exchange(gone_, nullptr), reason] { gone(reason); });
  }

 private:
  void Done() {
    gone_ = nullptr;
    taken_ = nullptr;
    if (HttpConnection* connection = std::exchange(connection_, nullptr)) {
      connection->ExchangeDone();
    }
  }

  HttpConnection* connection_;  // null: answered, or the client is gone
  HttpRequest request_;
  ByteBudget::Hold hold_;  // of the body
  std::string peer_;
  bool streaming_ = false;
  std::function<void(GoneReason)> gone_;
  std::function<void()> taken_;
};

HttpConnection::HttpConnection(Socket socket, const Strand& strand, HttpHandler& handler,
                               const HttpServerOptions& options, ServerSide server)
    : socket_(std::move(socket)),
      strand_(strand),
      handler_(handler),
      options_(options),
      server_(std::move(server)),
      peer_(PeerName(socket_)),
      parser_(options.limits),
      body_(server_.bodies),
      timer_(strand) {}

void HttpConnection::Start() {
  error_code ignored;
  socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  UpdateTimer(false);
  Read();
}

void HttpConnection::Refuse(const HttpError& error) {
  AnswerAndClose(handler_.Refuse(error));
  Read();
}

void HttpConnection::Stop() {
  if (closed_) return;
  close_after_ = true;
  MaybeClose();
}

void HttpConnection::Close(GoneReason reason) {
  if (closed_) return;
  if (exchange_ != nullptr) std::exchange(exchange_, nullptr)->Gone(reason);
  CloseSocket();
}

void HttpConnection::CloseSocket() {
  if (closed_) return;
  closed_ = true;
  idle_since_ = kNever;
  timer_.Cancel();
  error_code ignored;
  socket_.close(ignored);
  strand_.Post(std::move(server_.ended));  // which may destroy this connection
}

// --- input

void HttpConnection::Read() {
  if (reading_ || closed_ || eof_) return;
  if (!lingering_ && in_.size() >= options_.max_pipelined_bytes) return;
  reading_ = true;
  read_buffer_.resize(kReadBytes);
  socket_.async_read_some(boost::asio::buffer(read_buffer_),
                          [self = shared_from_this()](const error_code& ec, std::size_t n) {
                            self->OnRead(n, ec.failed());
                          });
}

void HttpConnection::OnRead(std::size_t bytes, bool failed) {
  reading_ = false;
  if (closed_) return;
  if (failed) {
    eof_ = true;
    if (exchange_ != nullptr) return Close(GoneReason::kDisconnected);
    close_after_ = true;
    return lingering_ ? CloseSocket() : MaybeClose();
  }
  if (lingering_) return Read();
  in_.append(read_buffer_.data(), bytes);
  UpdateTimer(true);
  Pump();
}

// Answers as many of the received requests as can be answered at once.
void HttpConnection::Pump() {
  if (pumping_ || closed_) return;
  pumping_ = true;
  while (!closed_ && exchange_ == nullptr && !close_after_ && Step()) {
  }
  pumping_ = false;
  UpdateTimer(false);
  Read();
  MaybeClose();
}

// Whether another step may do something.
bool HttpConnection::Step() {
  bool progressed = false;
  if (!parser_.done()) {
    if (!parser_.has_head()) {
      while (in_.starts_with("\r\n")) in_.erase(0, 2);  // RFC 9112, 2.2
    }
    if (in_.empty()) return false;
    ParseProgress progress = parser_.Consume(in_);
    in_.erase(0, progress.consumed);
    if (progress.error) {
      AnswerAndClose(handler_.Refuse(*progress.error));
      return false;
    }
    if (!body_.Resize(parser_.body_capacity())) {
      AnswerAndClose(handler_.Refuse(
          {503, fmt::format("the bodies of all requests together exceed {} bytes: try again",
                            server_.bodies->limit())}));
      return false;
    }
    progressed = progress.consumed > 0;
  }
  if (parser_.has_head() && !head_checked_) {
    if (!CheckHead()) return false;
    progressed = true;
  }
  if (parser_.done()) {
    BeginExchange();
    return true;
  }
  return progressed;
}

// Whether the request may go on.
bool HttpConnection::CheckHead() {
  head_checked_ = true;
  const HttpRequest& head = parser_.request();
  if (std::optional<HttpResponse> refusal = handler_.Check(head)) {
    AnswerAndClose(*refusal);
    return false;
  }
  std::string_view expect = head.Header("expect");
  if (expect.empty() || head.http_1_0) return true;
  if (!parser_.expects_continue()) {
    HttpError error{417, fmt::format("expect is '{}', only 100-continue is understood", expect)};
    AnswerAndClose(handler_.Refuse(error));
    return false;
  }
  if (!parser_.done() && in_.empty()) Send("HTTP/1.1 100 Continue\r\n\r\n");
  return true;
}

void HttpConnection::BeginExchange() {
  if (!parser_.keep_alive()) close_after_ = true;
  auto exchange = std::make_shared<Exchange>(this, std::move(parser_.request()), std::move(body_));
  body_ = ByteBudget::Hold(server_.bodies);
  exchange_ = exchange;
  parser_ = HttpRequestParser(options_.limits);
  head_checked_ = false;
  had_request_ = true;
  handler_.Handle(std::move(exchange));
}

// --- output

void HttpConnection::AnswerAndClose(const HttpResponse& response) {
  close_after_ = true;
  unread_body_ = true;
  SendResponse(response, parser_.has_head() ? &parser_.request() : nullptr);
  parser_.DropBody();
  body_.Resize(0);
}

void HttpConnection::AddCommonHeaders(HttpResponse& response, const HttpRequest& head) {
  for (HttpHeader& header : handler_.CommonHeaders(head)) {
    response.headers.push_back(std::move(header));
  }
}

void HttpConnection::SendResponse(HttpResponse response, const HttpRequest* head) {
  if (head != nullptr) AddCommonHeaders(response, *head);
  const bool with_body = head == nullptr || !head->head;
  std::string framing = fmt::format("content-length: {}\r\n", response.body.size());
  Send(FormatResponseHead(response, framing, !close_after_) + (with_body ? response.body : ""));
}

void HttpConnection::ExchangeDone() {
  exchange_ = nullptr;
  // The next request begins outside the handler's call.
  if (!pumping_) strand_.Post([self = shared_from_this()] { self->Pump(); });
}

void HttpConnection::Send(std::string_view bytes) {
  if (closed_) return;
  out_ += bytes;
  if (!write_pending_) Write();
}

void HttpConnection::Write() {
  if (written_ == writing_.size()) {
    writing_ = std::exchange(out_, {});
    written_ = 0;
  }
  write_pending_ = true;
  UpdateTimer(true);
  socket_.async_write_some(
      boost::asio::buffer(writing_.data() + written_, writing_.size() - written_),
      [self = shared_from_this()](const error_code& ec, std::size_t n) {
        self->OnWritten(n, ec.failed());
      });
}

void HttpConnection::OnWritten(std::size_t bytes, bool failed) {
  write_pending_ = false;
  if (closed_) return;
  if (failed) return Close(GoneReason::kDisconnected);
  written_ += bytes;
  if (written_ < writing_.size() || !out_.empty()) {
    Write();
  } else {
    UpdateTimer(true);
  }
  if (auto exchange = exchange_) exchange->Taken();
  MaybeClose();
}

// Ends a connection that has nothing more to say.
void HttpConnection::MaybeClose() {
  if (closed_ || lingering_ || !close_after_ || exchange_ != nullptr || pumping_) return;
  if (write_pending_ || !out_.empty()) return;
  if (eof_ || (!unread_body_ && in_.empty())) return CloseSocket();
  // Closing with bytes unread would reset the connection, and the client could lose the answer.
  lingering_ = true;
  in_.clear();
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  UpdateTimer(false);
  Read();
}

// --- time

HttpConnection::Wait HttpConnection::WaitsFor() const {
  if (lingering_) return Wait::kLinger;
  if (write_pending_) return Wait::kWrite;
  if (exchange_ != nullptr) return Wait::kNothing;
  if (parser_.has_head()) return Wait::kBody;
  return in_.empty() ? Wait::kIdle : Wait::kHead;
}

Duration HttpConnection::TimeoutOf(Wait wait) const {
  switch (wait) {
    case Wait::kNothing:
      return Duration::zero();
    case Wait::kIdle:
      return options_.idle_timeout;
    case Wait::kHead:
      return options_.header_timeout;
    case Wait::kBody:
      return options_.stall_timeout;
    case Wait::kWrite:
      return options_.stall_timeout;
    case Wait::kLinger:
      return options_.linger;
  }
  return Duration::zero();
}

void HttpConnection::UpdateTimer(bool progress) {
  if (closed_) return;
  const Wait wait = WaitsFor();
  const bool anew = progress && (wait == Wait::kBody || wait == Wait::kWrite);
  if (wait == wait_ && !anew) return;
  const bool becomes_idle = wait == Wait::kIdle && wait_ != Wait::kIdle && had_request_;
  if (wait != Wait::kIdle) idle_since_ = kNever;
  if (becomes_idle) {
    idle_since_ = SteadyNow();
    server_.idle();
  }
  wait_ = wait;
  deadline_ = wait == Wait::kNothing ? kNever : SteadyNow() + TimeoutOf(wait);
  if (deadline_ >= wake_at_) return;  // looks again when it wakes
  wake_at_ = deadline_;
  timer_.Set(wake_at_, [this] { OnTimer(); });
}

void HttpConnection::OnTimer() {
  wake_at_ = kNever;
  if (closed_ || deadline_ == kNever) return;
  if (SteadyNow() < deadline_) {
    wake_at_ = deadline_;
    timer_.Set(wake_at_, [this] { OnTimer(); });
    return;
  }
  switch (wait_) {
    case Wait::kNothing:
      return;
    case Wait::kIdle:
    case Wait::kLinger:
      return CloseSocket();
    case Wait::kWrite:
      return Close(GoneReason::kSlowReader);
    case Wait::kHead:
      AnswerAndClose(handler_.Refuse({408, "the request's head took too long"}));
      return;
    case Wait::kBody:
      AnswerAndClose(handler_.Refuse({408, "the request's body stopped coming"}));
      return;
  }
}

}  // namespace tandem::net
