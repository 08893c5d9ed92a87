// The only source that sees Beast: its parser checks the grammar, this file the limits.
#include "common/net/http_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <utility>

#include "common/base/check.h"

namespace tandem::net {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;

std::string_view ToStd(string_view s) { return {s.data(), s.size()}; }

// Stores what Beast reports. `kIsRequest` decides only the start line.
template <bool kIsRequest>
class Collector : public http::basic_parser<kIsRequest> {
 public:
  explicit Collector(const HttpLimits& limits) : limits_(limits) {
    this->header_limit(static_cast<std::uint32_t>(limits.header_bytes));
    this->body_limit(limits.body_bytes);
    this->eager(false);
  }

  HttpRequest request;
  int status = 0;
  std::vector<HttpHeader> headers;
  std::string body;
  std::optional<HttpError> error;  // found by us, more exact than Beast's

 private:
  void Fail(error_code& ec, int http_status, std::string message) {
    error = HttpError{http_status, std::move(message)};
    ec = http::error::bad_value;
  }

  void on_request_impl(http::verb, string_view method, string_view target, int version,
                       error_code&) override {
    request.method = std::string(method);
    request.http_1_0 = version < 11;
    if (request.method == "HEAD") {
      request.method = "GET";
      request.head = true;
    }
    std::string_view rest = ToStd(target);
    if (rest.starts_with("http://") || rest.starts_with("https://")) {  // absolute form
      std::size_t slash = rest.find('/', rest.find("//") + 2);
      rest = slash == std::string_view::npos ? std::string_view("/") : rest.substr(slash);
    }
    std::size_t question = rest.find('?');
    request.path = std::string(rest.substr(0, question));
    if (question != std::string_view::npos) request.query = std::string(rest.substr(question + 1));
  }
  void on_response_impl(int code, string_view, int, error_code&) override { status = code; }

  void on_field_impl(http::field field, string_view name, string_view value,
                     error_code& ec) override {
    if (this->is_header_done()) return;  // trailers say nothing that we use
    if (headers.size() >= limits_.num_headers) {
      return Fail(ec, 431, fmt::format("more than {} headers", limits_.num_headers));
    }
    headers.push_back({ToLower(ToStd(name)), std::string(value)});
    if (kIsRequest && field == http::field::transfer_encoding && headers.back().value.size() > 0 &&
        ToLower(headers.back().value) != "chunked") {
      return Fail(ec, 501,
                  fmt::format("transfer-encoding is '{}', only chunked is understood",
                              headers.back().value));
    }
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view bytes, error_code&) override {
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view bytes, error_code&) override {
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_finish_impl(error_code&) override {}

  HttpLimits limits_;
};

HttpError Describe(const error_code& ec, const HttpLimits& limits) {
  if (ec == http::error::header_limit) {
    return {431, fmt::format("headers exceed {} bytes", limits.header_bytes)};
  }
  if (ec == http::error::body_limit) {
    return {413, fmt::format("body exceeds {} bytes", limits.body_bytes)};
  }
  if (ec == http::error::bad_version) return {505, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
  return {400, fmt::format("not an HTTP message: {}", ec.message())};
}

template <bool kIsRequest>
ParseProgress Feed(Collector<kIsRequest>& parser, const HttpLimits& limits,
                   std::string_view bytes) {
  TANDEM_CHECK(!parser.is_done());
  ParseProgress progress;
  const bool had_head = parser.is_header_done();
  while (!parser.is_done() && progress.consumed < bytes.size()) {
    std::string_view rest = bytes.substr(progress.consumed);
    error_code ec;
    std::size_t n = parser.put(boost::asio::const_buffer(rest.data(), rest.size()), ec);
    progress.consumed += n;
    if (ec == http::error::need_more) {
      // Head, chunk line or trailers without an end in sight.
      if (rest.size() - n > limits.header_bytes) {
        progress.error = HttpError{parser.is_header_done() ? 400 : 431,
                                   fmt::format("a line exceeds {} bytes", limits.header_bytes)};
      }
      break;
    }
    if (ec) {
      progress.error = parser.error ? parser.error : Describe(ec, limits);
      break;
    }
    if (!had_head && parser.is_header_done()) break;
  }
  return progress;
}

}  // namespace

class HttpRequestParser::Impl {
 public:
  explicit Impl(const HttpLimits& l) : limits(l), collector(l) {}
  HttpLimits limits;
  Collector<true> collector;
};

HttpRequestParser::HttpRequestParser(const HttpLimits& limits)
    : impl_(std::make_unique<Impl>(limits)) {}
HttpRequestParser::~HttpRequestParser() = default;
HttpRequestParser::HttpRequestParser(HttpRequestParser&&) noexcept = default;
HttpRequestParser& HttpRequestParser::operator=(HttpRequestParser&&) noexcept = default;

ParseProgress HttpRequestParser::Consume(std::string_view bytes) {
  Collector<true>& collector = impl_->collector;
  ParseProgress progress = Feed(collector, impl_->limits, bytes);
  HttpRequest& request = collector.request;
  if (collector.is_header_done() && request.headers.empty()) {
    request.headers = std::move(collector.headers);
    collector.headers.clear();
  }
  if (collector.is_done()) request.body = std::move(collector.body);
  return progress;
}

bool HttpRequestParser::has_head() const { return impl_->collector.is_header_done(); }
bool HttpRequestParser::done() const { return impl_->collector.is_done(); }
bool HttpRequestParser::keep_alive() const { return impl_->collector.keep_alive(); }
bool HttpRequestParser::has_body() const {
  const Collector<true>& c = impl_->collector;
  return c.chunked() || c.content_length().value_or(0) > 0;
}
void HttpRequestParser::DropBody() {
  impl_->collector.body = impl_->collector.request.body = std::string();
}
std::size_t HttpRequestParser::body_capacity() const {
  const Collector<true>& c = impl_->collector;
  return std::max(c.body.capacity(), c.request.body.capacity());
}
bool HttpRequestParser::expects_continue() const {
  return ToLower(impl_->collector.request.Header("expect")) == "100-continue";
}
HttpRequest& HttpRequestParser::request() { return impl_->collector.request; }

class HttpResponseParser::Impl {
 public:
  explicit Impl(const HttpLimits& l) : limits(l), collector(l) {}
  HttpLimits limits;
  Collector<false> collector;
};

HttpResponseParser::HttpResponseParser(const HttpLimits& limits)
    : impl_(std::make_unique<Impl>(limits)) {}
HttpResponseParser::~HttpResponseParser() = default;

ParseProgress HttpResponseParser::Consume(std::string_view bytes) {
  return Feed(impl_->collector, impl_->limits, bytes);
}

std::optional<HttpError> HttpResponseParser::ConsumeEof() {
  Collector<false>& collector = impl_->collector;
  if (collector.is_done()) return std::nullopt;
  if (!collector.got_some()) return HttpError{502, "the server closed without an answer"};
  error_code ec;
  collector.put_eof(ec);
  if (ec) return HttpError{502, "the server closed in the middle of its answer"};
  return std::nullopt;
}

bool HttpResponseParser::has_head() const { return impl_->collector.is_header_done(); }
bool HttpResponseParser::done() const { return impl_->collector.is_done(); }
bool HttpResponseParser::keep_alive() const { return impl_->collector.keep_alive(); }
int HttpResponseParser::status() const { return impl_->collector.status; }
const std::vector<HttpHeader>& HttpResponseParser::headers() const {
  return impl_->collector.headers;
}
std::string_view HttpResponseParser::Header(std::string_view name) const {
  for (const HttpHeader& header : headers()) {
    if (header.name == name) return header.value;
  }
  return {};
}
std::string HttpResponseParser::TakeBody() { return std::exchange(impl_->collector.body, {}); }

}  // namespace tandem::net
