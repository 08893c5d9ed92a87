// HTTP/1.1 messages as values, shared by server, client and handlers; no parser type shows here.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::net {

struct HttpHeader {
  std::string name;  // lower case
  std::string value;
};

struct HttpLimits {
  std::size_t num_headers = 64;
  std::size_t header_bytes = 32 << 10;
  std::size_t body_bytes = 32 << 20;
};

struct HttpRequest {
  std::string method;  // as sent, but GET for HEAD
  bool head = false;   // HEAD: the answer's body is not sent
  bool http_1_0 = false;
  std::string path;   // as sent, without the query
  std::string query;  // what follows '?'
  std::vector<HttpHeader> headers;
  std::string body;

  // Value of the first header `name` (lower case); empty if there is none.
  std::string_view Header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<HttpHeader> headers = {};  // further ones; not content-length, connection and the like
  std::string body = {};
};

// Why a message cannot be read, as the status to answer with.
struct HttpError {
  int status = 400;
  std::string message;
};

// "Not Found"; "Unknown" for a status without a name here.
std::string_view ReasonPhrase(int status);

// The head of an answer, ending in the empty line. `framing` is the line that says where the body
// ends ("content-length: 5\r\n").
std::string FormatResponseHead(const HttpResponse& response, std::string_view framing,
                               bool keep_alive);

std::string ToLower(std::string_view text);  // ASCII

}  // namespace tandem::net
