#include "common/net/http_parser.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/base/random.h"

namespace tandem::net {
namespace {

struct Parsed {
  bool done = false;
  std::optional<HttpError> error = std::nullopt;
  HttpRequest request = {};
  std::string rest = {};
};

// Shows `bytes` in pieces of at most `step`.
Parsed ParseInSteps(std::string_view bytes, std::size_t step, const HttpLimits& limits = {}) {
  HttpRequestParser parser(limits);
  std::string pending;
  std::size_t shown = 0;
  while (!parser.done()) {
    if (shown < bytes.size()) {
      std::size_t n = std::min(step, bytes.size() - shown);
      pending += bytes.substr(shown, n);
      shown += n;
    }
    while (!parser.done()) {
      ParseProgress progress = parser.Consume(pending);
      pending.erase(0, progress.consumed);
      if (progress.error) return {.error = progress.error};
      if (progress.consumed == 0) break;
    }
    if (shown == bytes.size() && !parser.done()) return {};
  }
  return {.done = true,
          .request = parser.request(),
          .rest = pending + std::string(bytes.substr(shown))};
}

TEST(HttpRequestParserTest, ReadsTheSameRequestWhateverThePieces) {
  const std::string text =
      "POST /v1/completions?a=b HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
      "Content-Length: 11\r\n\r\nhello worldGET /";
  for (std::size_t step : {1, 2, 3, 7, 64, 4096}) {
    Parsed parsed = ParseInSteps(text, step);
    ASSERT_TRUE(parsed.done) << step;
    EXPECT_EQ(parsed.request.method, "POST");
    EXPECT_EQ(parsed.request.path, "/v1/completions");
    EXPECT_EQ(parsed.request.query, "a=b");
    EXPECT_EQ(parsed.request.Header("content-type"), "application/json");
    EXPECT_EQ(parsed.request.body, "hello world");
    EXPECT_EQ(parsed.rest, "GET /") << step;
  }
}

TEST(HttpRequestParserTest, JoinsChunks) {
  const std::string text =
      "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
      "5\r\nhello\r\n6;name=value\r\n world\r\n0\r\nx-trailer: 1\r\n\r\nrest";
  for (std::size_t step : {1, 2, 3, 7, 64, 4096}) {
    Parsed parsed = ParseInSteps(text, step);
    ASSERT_TRUE(parsed.done) << step;
    EXPECT_EQ(parsed.request.body, "hello world");
    EXPECT_EQ(parsed.request.headers.size(), 1u) << "trailers are not headers";
    EXPECT_EQ(parsed.rest, "rest");
  }
}

TEST(HttpRequestParserTest, HeadIsAGetWithoutAnAnswersBody) {
  Parsed parsed = ParseInSteps("HEAD /health HTTP/1.1\r\n\r\n", 4096);
  ASSERT_TRUE(parsed.done);
  EXPECT_EQ(parsed.request.method, "GET");
  EXPECT_TRUE(parsed.request.head);
}

TEST(HttpRequestParserTest, AbsoluteFormIsReducedToItsPath) {
  EXPECT_EQ(ParseInSteps("GET http://h:1/a/b?c HTTP/1.1\r\n\r\n", 99).request.path, "/a/b");
  EXPECT_EQ(ParseInSteps("GET http://h HTTP/1.1\r\n\r\n", 99).request.path, "/");
}

TEST(HttpRequestParserTest, LimitsAreHeld) {
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 64; ++i) many += fmt::format("h{}: v\r\n", i);
  EXPECT_TRUE(ParseInSteps(many + "\r\n", 4096).done);
  EXPECT_EQ(ParseInSteps(many + "last: v\r\n\r\n", 4096).error->status, 431);

  std::string long_value = "GET / HTTP/1.1\r\nh: " + std::string(40 << 10, 'x');
  EXPECT_EQ(ParseInSteps(long_value, 4096).error->status, 431);
  EXPECT_EQ(ParseInSteps("GET /" + std::string(40 << 10, 'x'), 4096).error->status, 431);

  HttpLimits small{.body_bytes = 10};
  const std::string head = "POST / HTTP/1.1\r\n";
  EXPECT_TRUE(ParseInSteps(head + "content-length: 10\r\n\r\n0123456789", 1, small).done);
  EXPECT_EQ(ParseInSteps(head + "content-length: 11\r\n\r\n", 4096, small).error->status, 413)
      << "before a byte of the body";
  const std::string chunked = head + "transfer-encoding: chunked\r\n\r\n";
  EXPECT_EQ(ParseInSteps(chunked + "8\r\n01234567\r\n8\r\n", 4096, small).error->status, 413);
  EXPECT_EQ(ParseInSteps(chunked + "ffffffffffffffff\r\n", 4096, small).error->status, 413);
}

TEST(HttpRequestParserTest, RefusesWhatCouldBeReadInTwoWays) {
  for (std::string_view headers : {
           "content-length: 1\r\ntransfer-encoding: chunked\r\n",
           "transfer-encoding: chunked\r\ncontent-length: 1\r\n",
           "content-length: 1\r\ncontent-length: 2\r\n",
           "content-length: -1\r\n",
           "content-length: 1x\r\n",
           "content-length: 99999999999999999999999\r\n",
           "transfer-encoding: gzip\r\n",
           "transfer-encoding: gzip, chunked\r\n",
           "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
           "bad header: 1\r\n",
           "no-colon\r\n",
       }) {
    Parsed parsed = ParseInSteps("POST / HTTP/1.1\r\n" + std::string(headers) + "\r\n", 4096);
    EXPECT_TRUE(parsed.error) << headers;
  }
  EXPECT_TRUE(ParseInSteps("GET / HTTP/2.0\r\n\r\n", 4096).error);
  EXPECT_TRUE(ParseInSteps("GET /\r\n\r\n", 4096).error);
  EXPECT_TRUE(ParseInSteps("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS", 4096).error);
}

TEST(HttpRequestParserTest, RandomBytesEndInAnErrorOrARequest) {
  const std::string seed_text =
      "POST /v1/completions HTTP/1.1\r\ncontent-type: application/json\r\n"
      "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
  SplitMix64 random(7);
  int errors = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = seed_text;
    for (std::uint64_t n = 1 + random.Below(4); n > 0; --n) {
      std::size_t at = random.Below(bytes.size());
      switch (random.Below(3)) {
        case 0:
          bytes[at] = static_cast<char>(random.Below(256));
          break;
        case 1:
          bytes.erase(at, 1 + random.Below(8));
          break;
        case 2:
          bytes.insert(at, std::string(1 + random.Below(8), static_cast<char>(random.Below(256))));
          break;
      }
      if (bytes.empty()) bytes = seed_text;
    }
    Parsed parsed = ParseInSteps(bytes, 1 + random.Below(80));
    errors += parsed.error.has_value();
    if (parsed.done) {
      EXPECT_LE(parsed.request.body.size(), bytes.size());
    }
  }
  EXPECT_GT(errors, 1000);
}

TEST(HttpResponseParserTest, TakesBodyAsItComes) {
  HttpResponseParser parser({});
  std::string head =
      "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
      "transfer-encoding: chunked\r\n\r\n";
  EXPECT_EQ(parser.Consume(head).consumed, head.size());
  EXPECT_TRUE(parser.has_head());
  EXPECT_EQ(parser.status(), 200);
  EXPECT_EQ(parser.Header("content-type"), "text/event-stream");
  std::string chunk = "3\r\nabc\r\n";
  std::size_t consumed = parser.Consume(chunk).consumed;
  EXPECT_EQ(parser.TakeBody(), "abc");
  std::string rest = chunk.substr(consumed) + "0\r\n\r\n";
  EXPECT_FALSE(parser.done());
  parser.Consume(rest);
  EXPECT_TRUE(parser.done());
  EXPECT_TRUE(parser.keep_alive());
}

TEST(HttpResponseParserTest, AnEarlyEndIsAnError) {
  HttpResponseParser none({});
  EXPECT_EQ(none.ConsumeEof()->status, 502);
  HttpResponseParser half({});
  half.Consume("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
  half.Consume("ab");
  EXPECT_TRUE(half.ConsumeEof());
  HttpResponseParser whole({});
  whole.Consume("HTTP/1.0 200 OK\r\n\r\n");
  whole.Consume("until the end");
  EXPECT_FALSE(whole.ConsumeEof());
  EXPECT_TRUE(whole.done());
  EXPECT_EQ(whole.TakeBody(), "until the end");
}

}  // namespace
}  // namespace tandem::net
