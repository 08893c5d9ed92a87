// One client's connection to an HttpServer. Internal to the server.
//
//   socket ─read─► in_ ─parse─► exchange ─► handler
//   socket ◄─write─ out_ ◄─answer─ exchange
//
// One exchange at a time, so answers keep the order of their requests. Lives on the server's
// strand; kept alive by its outstanding operations, the server and its exchange.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/net/byte_budget.h"
#include "common/net/http_exchange.h"
#include "common/net/http_parser.h"
#include "common/net/http_server.h"
#include "common/net/strand.h"

namespace tandem::net {

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  // What the connection asks of its server and tells it, on the strand.
  struct ServerSide {
    Closure ended;                       // runs once, when the connection is closed
    Closure idle;                        // it begins to wait for a further request
    std::function<bool()> full;          // no place is left, so an answer is the connection's last
    std::shared_ptr<ByteBudget> bodies;  // shared with the bodies that handlers keep
  };

  HttpConnection(Socket socket, const Strand& strand, HttpHandler& handler,
                 const HttpServerOptions& options, ServerSide server);

  void Start();
  // Instead of Start(): answers with `error`, whatever is asked, and closes.
  void Refuse(const HttpError& error);
  // Closes when the request being answered, if any, is done.
  void Stop();
  // Closes now; a request being answered is told `reason`.
  void Close(GoneReason reason);

  bool answering() const { return exchange_ != nullptr; }
  // Since when it has waited for a further request; kNever: it does not, or had none yet.
  Time idle_since() const { return idle_since_; }

 private:
  class Exchange;

  // What the timer waits for.
  enum class Wait { kNothing, kIdle, kHead, kBody, kWrite, kLinger };

  void Read();
  void OnRead(std::size_t bytes, bool failed);
  void Pump();
  bool Step();
  bool CheckHead();
  void BeginExchange();
  void AnswerAndClose(const HttpResponse& response);
  // `head` is null where none was read.
  void SendResponse(HttpResponse response, const HttpRequest* head);
  void AddCommonHeaders(HttpResponse& response, const HttpRequest& head);
  void ExchangeDone();

  void Send(std::string_view bytes);
  void Write();
  void OnWritten(std::size_t bytes, bool failed);
  void MaybeClose();

  Wait WaitsFor() const;
  Duration TimeoutOf(Wait wait) const;
  // `progress`: bytes moved, so what waits for bytes waits anew.
  void UpdateTimer(bool progress);
  void OnTimer();
  void CloseSocket();

  Socket socket_;
  Strand strand_;
  HttpHandler& handler_;
  const HttpServerOptions options_;
  ServerSide server_;
  std::string peer_;

  std::string in_;           // received, not parsed
  std::string read_buffer_;  // target of the outstanding read
  std::string out_;          // to be sent
  std::string writing_;      // being sent
  std::size_t written_ = 0;  // of writing_
  bool reading_ = false;
  bool write_pending_ = false;
  bool eof_ = false;  // the client sends nothing more
  bool pumping_ = false;
  bool head_checked_ = false;
  bool close_after_ = false;  // no further request is read
  bool unread_body_ = false;  // closing leaves bytes unread: linger
  bool lingering_ = false;    // the answer is out; what comes is dropped
  bool closed_ = false;
  bool had_request_ = false;
  Time idle_since_ = kNever;

  HttpRequestParser parser_;
  ByteBudget::Hold body_;  // of what parser_ keeps
  std::shared_ptr<Exchange> exchange_;

  Timer timer_;
  Wait wait_ = Wait::kNothing;
  Time wake_at_ = kNever;   // when the timer fires
  Time deadline_ = kNever;  // when what it waits for is too late
};

}  // namespace tandem::net
