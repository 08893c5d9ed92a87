#include "router/api/answer_format.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "router/api/api_keys.h"
#include "router/api/request_id.h"
#include "router/api/timings.h"

namespace tandem::router {
namespace {

namespace json = boost::json;

json::value Data(const std::string& event) {
  EXPECT_TRUE(event.starts_with("data: {")) << event;
  EXPECT_TRUE(event.ends_with("}\n\n")) << event;
  EXPECT_EQ(event.find('\n'), event.size() - 2) << "one line an event";
  return json::parse(event.substr(6));
}

AnswerFormat Format(CompletionKind kind, bool include_usage = false, bool continuous = false) {
  return AnswerFormat({.kind = kind,
                       .id = "id-1",
                       .model = "m\"1",
                       .created_unix_s = 17,
                       .include_usage = include_usage,
                       .continuous_usage = continuous});
}

constexpr Usage kUsage{TokenCount(10), TokenCount(5), TokenCount(3)};

TEST(AnswerFormatTest, ChatSaysTheRoleWithTheFirstContentOnly) {
  AnswerFormat format = Format(CompletionKind::kChat);
  json::value first = Data(format.TextEvent("Hi", true, kUsage));
  EXPECT_EQ(first.at("object"), "chat.completion.chunk");
  EXPECT_EQ(first.at("id"), "id-1");
  EXPECT_EQ(first.at("model"), "m\"1");
  EXPECT_EQ(first.at("created"), 17);
  const json::value& choice = first.at("choices").at(0);
  EXPECT_EQ(choice.at("delta").at("role"), "assistant");
  EXPECT_EQ(choice.at("delta").at("content"), "Hi");
  EXPECT_TRUE(choice.at("finish_reason").is_null());
  EXPECT_FALSE(first.as_object().contains("usage"));
  json::value second = Data(format.TextEvent("\n\"\\\x01é", false, kUsage));
  EXPECT_FALSE(second.at("choices").at(0).at("delta").as_object().contains("role"));
  EXPECT_EQ(second.at("choices").at(0).at("delta").at("content"), "\n\"\\\x01é");
}

TEST(AnswerFormatTest, FinishHasAnEmptyDelta) {
  json::value chat = Data(Format(CompletionKind::kChat).FinishEvent("stop", false, kUsage, ""));
  EXPECT_TRUE(chat.at("choices").at(0).at("delta").as_object().empty());
  EXPECT_EQ(chat.at("choices").at(0).at("finish_reason"), "stop");
  json::value empty = Data(Format(CompletionKind::kChat).FinishEvent("stop", true, kUsage, ""));
  EXPECT_EQ(empty.at("choices").at(0).at("delta").at("role"), "assistant");
  json::value text = Data(Format(CompletionKind::kText).FinishEvent("length", false, kUsage, ""));
  EXPECT_EQ(text.at("choices").at(0).at("text"), "");
  EXPECT_EQ(text.at("object"), "text_completion");
}

TEST(AnswerFormatTest, UsageIsNullUntilItsOwnEvent) {
  AnswerFormat format = Format(CompletionKind::kText, true);
  EXPECT_TRUE(Data(format.TextEvent("x", true, kUsage)).at("usage").is_null());
  json::value finish = Data(format.FinishEvent("stop", false, kUsage, R"({"a":1})"));
  EXPECT_TRUE(finish.at("usage").is_null());
  EXPECT_FALSE(finish.as_object().contains("timings")) << "they are on the last event";
  json::value usage = Data(format.UsageEvent(kUsage, R"({"a":1})"));
  EXPECT_TRUE(usage.at("choices").as_array().empty());
  EXPECT_EQ(usage.at("usage").at("prompt_tokens"), 10);
  EXPECT_EQ(usage.at("usage").at("completion_tokens"), 5);
  EXPECT_EQ(usage.at("usage").at("total_tokens"), 15);
  EXPECT_EQ(usage.at("usage").at("prompt_tokens_details").at("cached_tokens"), 3);
  EXPECT_EQ(usage.at("timings").at("a"), 1);
}

TEST(AnswerFormatTest, ContinuousUsageIsInEveryEvent) {
  AnswerFormat format = Format(CompletionKind::kText, true, true);
  EXPECT_EQ(Data(format.TextEvent("x", true, kUsage)).at("usage").at("total_tokens"), 15);
}

TEST(AnswerFormatTest, WholeAnswers) {
  json::value chat = json::parse(Format(CompletionKind::kChat).Whole("Hi\n", "length", kUsage, ""));
  EXPECT_EQ(chat.at("object"), "chat.completion");
  EXPECT_EQ(chat.at("choices").at(0).at("message").at("content"), "Hi\n");
  EXPECT_EQ(chat.at("choices").at(0).at("message").at("role"), "assistant");
  EXPECT_EQ(chat.at("choices").at(0).at("finish_reason"), "length");
  EXPECT_EQ(chat.at("usage").at("prompt_tokens_details").at("cached_tokens"), 3);
  json::value text =
      json::parse(Format(CompletionKind::kText).Whole("Hi", "stop", kUsage, R"({"b":2})"));
  EXPECT_EQ(text.at("choices").at(0).at("text"), "Hi");
  EXPECT_EQ(text.at("timings").at("b"), 2);
}

TEST(ApiErrorTest, HasTheFourFields) {
  ApiError error = FieldError("top_p", "top_p is {}", 7);
  json::value value = json::parse(error.ToJson());
  EXPECT_EQ(value.at("error").at("message"), "top_p is 7");
  EXPECT_EQ(value.at("error").at("type"), "invalid_request_error");
  EXPECT_EQ(value.at("error").at("param"), "top_p");
  EXPECT_EQ(value.at("error").at("code"), "invalid_value");
  ApiError plain{.status = 500, .message = "m"};
  EXPECT_TRUE(json::parse(plain.ToJson()).at("error").at("param").is_null());
}

TEST(ApiErrorTest, StatusesBecomeHttp) {
  EXPECT_EQ(FromStatus(InvalidArgument("x")).status, 400);
  EXPECT_EQ(FromStatus(ResourceExhausted("x")).status, 429);
  EXPECT_EQ(FromStatus(ResourceExhausted("x")).retry_after_s, 1);
  EXPECT_EQ(FromStatus(Unavailable("x")).status, 503);
  EXPECT_EQ(FromStatus(DeadlineExceeded("x")).status, 504);
  EXPECT_FALSE(FromStatus(DeadlineExceeded("x")).should_retry);
  EXPECT_EQ(FromStatus(Internal("x")).status, 500);
  auto headers = FromStatus(Internal("x")).ToResponse().headers;
  ASSERT_EQ(headers.size(), 1u);
  EXPECT_EQ(headers[0].name, "x-should-retry");
}

TEST(TimingsTest, AreMilliseconds) {
  const Time start{std::chrono::seconds(10)};
  auto at = [&](int ms) { return start + std::chrono::milliseconds(ms); };
  Bill bill;
  bill.attempts = 1;
  bill.placements = 1;
  bill.prefill_node = "p0";
  bill.decode_node = "d0";
  bill.arrived = at(2);
  bill.dispatched = at(5);
  bill.first_token = at(40);
  bill.last_token = at(100);
  bill.pause_max = std::chrono::milliseconds(25);
  bill.delivered = TokenCount(4);
  bill.times.queued = std::chrono::milliseconds(1);
  bill.times.transfer_bytes = ByteCount(12345);
  json::value value =
      json::parse(TimingsJson({.received = start, .submitted = at(2), .first_text = at(41)}, bill));
  EXPECT_EQ(value.at("attempts"), 1);
  EXPECT_EQ(value.at("prefill_node"), "p0");
  EXPECT_EQ(value.at("prepare_ms"), 2.0);
  EXPECT_EQ(value.at("queue_ms"), 4.0);
  EXPECT_EQ(value.at("ttft_ms"), 41.0);
  EXPECT_EQ(value.at("itl_mean_ms"), 20.0);
  EXPECT_EQ(value.at("itl_max_ms"), 25.0);
  EXPECT_EQ(value.at("transfer_bytes"), 12345);
}

TEST(RequestIdTest, EchoesPrintableIdsOnly) {
  auto random = [] { return std::uint64_t{0xabc}; };
  auto id_of = [&](std::string given) {
    net::HttpRequest request;
    if (!given.empty()) request.headers.push_back({"x-request-id", std::move(given)});
    return RequestIdOf(request, random).value;
  };
  EXPECT_EQ(id_of("my id-7"), "my id-7");
  EXPECT_EQ(id_of(""), "req-0000000000000abc");
  EXPECT_EQ(id_of(std::string(128, 'x')), std::string(128, 'x'));
  EXPECT_EQ(id_of(std::string(129, 'x')), "req-0000000000000abc");
  EXPECT_EQ(id_of("a\tb"), "req-0000000000000abc");
}

TEST(ApiKeysTest, BothHeadersWork) {
  ApiKeys keys({"one", "two"});
  auto allowed = [&](std::string name, std::string value) {
    net::HttpRequest request;
    request.headers.push_back({std::move(name), std::move(value)});
    return keys.Allow(request);
  };
  EXPECT_TRUE(allowed("authorization", "Bearer one"));
  EXPECT_TRUE(allowed("authorization", "bearer two"));
  EXPECT_TRUE(allowed("x-api-key", "two"));
  EXPECT_FALSE(allowed("authorization", "Bearer three"));
  EXPECT_FALSE(allowed("authorization", "one"));
  EXPECT_FALSE(allowed("x-api-key", ""));
  EXPECT_FALSE(keys.Allow({}));
  EXPECT_TRUE(ApiKeys({}).Allow({}));
}

}  // namespace
}  // namespace tandem::router
