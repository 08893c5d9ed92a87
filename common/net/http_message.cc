#include "common/net/http_message.h"

#include <fmt/format.h>

#include <iterator>

namespace tandem::net {

std::string ToLower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view HttpRequest::Header(std::string_view name) const {
  for (const HttpHeader& header : headers) {
    if (header.name == name) return header.value;
  }
  return {};
}

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

std::string FormatResponseHead(const HttpResponse& response, std::string_view framing,
                               bool keep_alive) {
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\n", response.status, ReasonPhrase(response.status));
  auto out = std::back_inserter(head);
  if (!response.content_type.empty()) {
    fmt::format_to(out, "content-type: {}\r\n", response.content_type);
  }
  for (const HttpHeader& header : response.headers) {
    fmt::format_to(out, "{}: {}\r\n", header.name, header.value);
  }
  head += framing;
  head += keep_alive ? "connection: keep-alive\r\n\r\n" : "connection: close\r\n\r\n";
  return head;
}

}  // namespace tandem::net
