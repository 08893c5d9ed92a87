#include "router/api/completion_request.h"

#include <gtest/gtest.h>

#include <string>

#include "common/base/random.h"

namespace tandem::router {
namespace {

CompletionRequest Ok(const std::string& body, CompletionKind kind = CompletionKind::kText) {
  auto parsed = ParseCompletionRequest(body, kind);
  if (const ApiError* error = std::get_if<ApiError>(&parsed)) {
    ADD_FAILURE() << body << ": " << error->message;
    return {};
  }
  return std::get<CompletionRequest>(parsed);
}

ApiError Bad(const std::string& body, CompletionKind kind = CompletionKind::kText) {
  auto parsed = ParseCompletionRequest(body, kind);
  if (const ApiError* error = std::get_if<ApiError>(&parsed)) return *error;
  ADD_FAILURE() << "accepted: " << body;
  return {};
}

// A completion with one more field.
std::string With(const std::string& field) { return R"({"prompt":"x",)" + field + "}"; }
std::string ChatWith(const std::string& field) {
  return R"({"messages":[{"role":"user","content":"x"}],)" + field + "}";
}
std::string Chat(const std::string& messages) { return R"({"messages":)" + messages + "}"; }

TEST(CompletionRequestTest, DefaultsAreTheApis) {
  CompletionRequest request = Ok(R"({"model":"m","prompt":"hi"})");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(std::get<std::string>(request.prompt), "hi");
  EXPECT_FALSE(request.max_tokens);
  EXPECT_EQ(request.temperature, 1);
  EXPECT_EQ(request.top_p, 1);
  EXPECT_EQ(request.min_p, 0);
  EXPECT_EQ(request.top_k, 0);
  EXPECT_FALSE(request.seed);
  EXPECT_TRUE(request.stop.empty());
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.ignore_eos);
}

TEST(CompletionRequestTest, ReadsEveryField) {
  CompletionRequest request = Ok(R"({"model":"m","prompt":[1,2,3],"max_tokens":5,"temperature":0.5,
      "top_p":0.25,"top_k":40,"min_p":0.125,"seed":-7,"stop":["a","b"],"stop_token_ids":[9,8],
      "ignore_eos":true,"stream":true,"user":"u","timings":true,
      "stream_options":{"include_usage":true,"continuous_usage_stats":true}})");
  EXPECT_EQ(std::get<TokenIds>(request.prompt), (TokenIds{TokenId(1), TokenId(2), TokenId(3)}));
  EXPECT_EQ(request.max_tokens, TokenCount(5));
  EXPECT_EQ(request.temperature, 0.5);
  EXPECT_EQ(request.top_p, 0.25);
  EXPECT_EQ(request.top_k, 40);
  EXPECT_EQ(request.min_p, 0.125);
  EXPECT_EQ(request.seed, static_cast<std::uint64_t>(-7));
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.stop_token_ids, (TokenIds{TokenId(9), TokenId(8)}));
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_TRUE(request.continuous_usage);
  EXPECT_TRUE(request.timings);
  EXPECT_EQ(request.unknown_fields, 0);
}

TEST(CompletionRequestTest, NullIsAbsent) {
  CompletionRequest request = Ok(
      R"({"prompt":"x","model":null,"max_tokens":null,"temperature":null,"top_p":null,"top_k":null,
      "min_p":null,"seed":null,"stop":null,"stop_token_ids":null,"ignore_eos":null,"stream":null,
      "stream_options":null,"user":null,"n":null,"logprobs":null,"timings":null})");
  EXPECT_EQ(request.temperature, 1);
  EXPECT_EQ(request.unknown_fields, 0);
}

TEST(CompletionRequestTest, MaxCompletionTokensWins) {
  EXPECT_EQ(Ok(With(R"("max_tokens":3,"max_completion_tokens":7)")).max_tokens, TokenCount(7));
  EXPECT_EQ(Ok(With(R"("max_completion_tokens":7)")).max_tokens, TokenCount(7));
}

TEST(CompletionRequestTest, OutOfRangeNamesFieldValueAndRange) {
  struct Case {
    const char* field;
    const char* param;
    const char* value;
  };
  for (const Case& c : {
           Case{R"("temperature":2.5)", "temperature", "2.5"},
           Case{R"("temperature":-1)", "temperature", "-1"},
           Case{R"("temperature":"hot")", "temperature", "a string"},
           Case{R"("top_p":0)", "top_p", "0"},
           Case{R"("top_p":1.5)", "top_p", "1.5"},
           Case{R"("min_p":-0.5)", "min_p", "-0.5"},
           Case{R"("top_k":-2)", "top_k", "-2"},
           Case{R"("top_k":1.5)", "top_k", "1.5"},
           Case{R"("top_k":99999999999)", "top_k", "99999999999"},
           Case{R"("max_tokens":0)", "max_tokens", "0"},
           Case{R"("max_tokens":-1)", "max_tokens", "-1"},
           Case{R"("max_tokens":true)", "max_tokens", "true"},
           Case{R"("max_tokens":"7")", "max_tokens", "a string"},
           Case{R"("max_completion_tokens":0)", "max_completion_tokens", "0"},
           Case{R"("seed":9223372036854775808)", "seed", "9223372036854775808"},
           Case{R"("seed":1.25)", "seed", "1.25"},
           Case{R"("stop":7)", "stop", "7"},
           Case{R"("stop":[7])", "stop", "7"},
           Case{R"("stop":"")", "stop", "0 bytes"},
           Case{R"("stop":["a",""])", "stop", "0 bytes"},
           Case{R"("stop_token_ids":"1")", "stop_token_ids", "a string"},
           Case{R"("stop_token_ids":[-1])", "stop_token_ids[0]", "-1"},
           Case{R"("ignore_eos":1)", "ignore_eos", "1"},
           Case{R"("stream":"yes")", "stream", "a string"},
           Case{R"("user":7)", "user", "7"},
           Case{R"("model":7)", "model", "7"},
           Case{R"("timings":7)", "timings", "7"},
           Case{R"("stream":true,"stream_options":7)", "stream_options", "7"},
           Case{R"("stream":true,"stream_options":{"include_usage":1})",
                "stream_options.include_usage", "1"},
       }) {
    ApiError error = Bad(With(c.field));
    EXPECT_EQ(error.status, 400) << c.field;
    EXPECT_EQ(error.param, c.param) << c.field;
    EXPECT_NE(error.message.find(c.param), std::string::npos) << error.message;
    EXPECT_NE(error.message.find(c.value), std::string::npos) << error.message;
    EXPECT_NE(error.message.find("must be"), std::string::npos) << error.message;
  }
}

TEST(CompletionRequestTest, NumbersThatAreNotFiniteAreRefused) {
  EXPECT_EQ(Bad(With(R"("temperature":1e999)")).status, 400);
  EXPECT_EQ(Bad(With(R"("temperature":NaN)")).code, "invalid_json");
  EXPECT_EQ(Ok(With(R"("max_tokens":16.0)")).max_tokens, TokenCount(16));
}

TEST(CompletionRequestTest, SixteenStopStringsAndNoMore) {
  std::string stops = R"("s0")";
  for (int i = 1; i < 16; ++i) stops += fmt::format(R"(,"s{}")", i);
  EXPECT_EQ(Ok(With(R"("stop":[)" + stops + "]")).stop.size(), 16u);
  EXPECT_EQ(Bad(With(R"("stop":[)" + stops + R"(,"more"])")).param, "stop");
  EXPECT_EQ(Ok(With(R"("stop":"one")")).stop, std::vector<std::string>{"one"});
  EXPECT_TRUE(Ok(With(R"("stop":[])")).stop.empty());
  EXPECT_EQ(Bad(With(fmt::format(R"("stop":"{}")", std::string(1025, 'x')))).param, "stop");
}

TEST(CompletionRequestTest, StreamOptionsNeedAStream) {
  EXPECT_EQ(Bad(With(R"("stream_options":{"include_usage":true})")).param, "stream_options");
  EXPECT_EQ(Bad(With(R"("stream":false,"stream_options":{})")).param, "stream_options");
  EXPECT_FALSE(Ok(With(R"("stream":true,"stream_options":{})")).include_usage);
}

TEST(CompletionRequestTest, PromptsAreOneTextOrItsIds) {
  EXPECT_EQ(std::get<std::string>(Ok(R"({"prompt":["one"]})").prompt), "one");
  EXPECT_EQ(std::get<TokenIds>(Ok(R"({"prompt":[[5]]})").prompt), TokenIds{TokenId(5)});
  for (const char* body :
       {R"({})", R"({"prompt":null})", R"({"prompt":7})", R"({"prompt":[]})",
        R"({"prompt":["a","b"]})", R"({"prompt":[[1],[2]]})", R"({"prompt":[1,"a"]})",
        R"({"prompt":[1.5]})", R"({"prompt":[-1]})", R"({"prompt":[2147483648]})",
        R"({"prompt":[[]]})", R"({"prompt":{"a":1}})", R"({"prompt":[{"a":1}]})"}) {
    ApiError error = Bad(body);
    EXPECT_EQ(error.status, 400) << body;
    EXPECT_TRUE(error.param.starts_with("prompt")) << body << error.param;
  }
}

TEST(CompletionRequestTest, ReadsMessages) {
  CompletionRequest request = Ok(Chat(R"([
      {"role":"system","content":"be brief"},
      {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"n"},
      {"role":"assistant","content":null},
      {"role":"assistant","content":"","tool_calls":[],"refusal":null},
      {"role":"user","content":"x","metadata":{}}])"),
                                 CompletionKind::kChat);
  ASSERT_EQ(request.messages.size(), 5u);
  EXPECT_EQ(request.messages[0].role, "system");
  EXPECT_EQ(request.messages[0].content, "be brief");
  EXPECT_EQ(request.messages[1].content, "a\nb");
  EXPECT_EQ(request.messages[1].name, "n");
  EXPECT_EQ(request.messages[2].content, "");
  EXPECT_EQ(request.unknown_fields, 1);
}

TEST(CompletionRequestTest, WrongMessagesAreNamed) {
  struct Case {
    const char* messages;
    const char* param;
  };
  for (const Case& c : {
           Case{R"([])", "messages"},
           Case{R"("hi")", "messages"},
           Case{R"(null)", "messages"},
           Case{R"([7])", "messages[0]"},
           Case{R"([{"content":"x"}])", "messages[0].role"},
           Case{R"([{"role":"robot","content":"x"}])", "messages[0].role"},
           Case{R"([{"role":"tool","content":"x"}])", "messages[0].role"},
           Case{R"([{"role":"user"}])", "messages[0].content"},
           Case{R"([{"role":"user","content":null}])", "messages[0].content"},
           Case{R"([{"role":"user","content":7}])", "messages[0].content"},
           Case{R"([{"role":"user","content":["x"]}])", "messages[0].content[0]"},
           Case{R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}])",
                "messages[0].content[0].type"},
           Case{R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
           Case{R"([{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"1"}]}])",
                "messages[1].tool_calls"},
       }) {
    ApiError error = Bad(Chat(c.messages), CompletionKind::kChat);
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.param, c.param) << c.messages << error.message;
  }
  EXPECT_EQ(Bad("{}", CompletionKind::kChat).param, "messages");
}

TEST(CompletionRequestTest, NeutralValuesOfUnhonouredFieldsAreAccepted) {
  for (const char* field :
       {R"("n":1)", R"("best_of":1)", R"("echo":false)", R"("suffix":null)", R"("suffix":"")",
        R"("logprobs":null)", R"("logprobs":false)", R"("presence_penalty":0)",
        R"("presence_penalty":0.0)", R"("frequency_penalty":0)", R"("repetition_penalty":1.0)",
        R"("logit_bias":{})", R"("min_tokens":0)", R"("use_beam_search":false)",
        R"("response_format":{"type":"text"})", R"("skip_special_tokens":true)"}) {
    EXPECT_EQ(Ok(With(field)).unknown_fields, 0) << field;
  }
  for (const char* field :
       {R"("tools":[])", R"("tool_choice":"none")", R"("tool_choice":"auto")",
        R"("parallel_tool_calls":true)", R"("top_logprobs":0)", R"("logprobs":false)", R"("n":1)",
        R"("chat_template_kwargs":{})", R"("functions":[])"}) {
    EXPECT_EQ(Ok(ChatWith(field), CompletionKind::kChat).unknown_fields, 0) << field;
  }
}

TEST(CompletionRequestTest, OtherValuesOfUnhonouredFieldsAreRefusedByName) {
  struct Case {
    const char* field;
    const char* param;
  };
  for (const Case& c :
       {Case{R"("n":2)", "n"}, Case{R"("best_of":3)", "best_of"}, Case{R"("echo":true)", "echo"},
        Case{R"("suffix":"x")", "suffix"}, Case{R"("logprobs":0)", "logprobs"},
        Case{R"("logprobs":5)", "logprobs"}, Case{R"("presence_penalty":0.5)", "presence_penalty"},
        Case{R"("frequency_penalty":-1)", "frequency_penalty"},
        Case{R"("repetition_penalty":1.1)", "repetition_penalty"},
        Case{R"("logit_bias":{"5":1})", "logit_bias"}, Case{R"("min_tokens":4)", "min_tokens"},
        Case{R"("response_format":{"type":"json_object"})", "response_format"},
        Case{R"("guided_json":{})", "guided_json"}}) {
    ApiError error = Bad(With(c.field));
    EXPECT_EQ(error.param, c.param);
    EXPECT_EQ(error.code, "unsupported_parameter") << error.message;
  }
  for (const Case& c :
       {Case{R"("tools":[{"type":"function"}])", "tools"},
        Case{R"("tool_choice":"required")", "tool_choice"}, Case{R"("logprobs":true)", "logprobs"},
        Case{R"("top_logprobs":3)", "top_logprobs"},
        Case{R"("modalities":["audio"])", "modalities"}}) {
    EXPECT_EQ(Bad(ChatWith(c.field), CompletionKind::kChat).param, c.param);
  }
}

TEST(CompletionRequestTest, UnknownFieldsAreAcceptedAndCounted) {
  EXPECT_EQ(Ok(With(R"("kv_transfer_params":{"a":1},"store":true,"x":null)")).unknown_fields, 3);
  EXPECT_EQ(
      Ok(With(R"("stream":true,"stream_options":{"include_obfuscation":false})")).unknown_fields,
      1);
}

TEST(CompletionRequestTest, BodiesThatAreNotJsonNameTheByte) {
  ApiError error = Bad(R"({"prompt":"x",})");
  EXPECT_EQ(error.code, "invalid_json");
  EXPECT_NE(error.message.find("at byte 14"), std::string::npos) << error.message;
  EXPECT_NE(Bad("").message.find("at byte 0"), std::string::npos);
  EXPECT_NE(Bad(R"({"prompt":"x"} {})").message.find("at byte 15"), std::string::npos);
  EXPECT_EQ(Bad("[1]").code, "invalid_json");
  EXPECT_EQ(Bad("7").code, "invalid_json");
}

TEST(CompletionRequestTest, TextThatIsNotUnicodeIsRefused) {
  EXPECT_EQ(Bad(R"({"prompt":"\ud800"})").code, "invalid_json");
  EXPECT_EQ(Bad(R"({"prompt":"\udc00"})").code, "invalid_json");
  EXPECT_EQ(Bad(R"({"prompt":"\ud800\u0041"})").code, "invalid_json");
  EXPECT_EQ(Bad("{\"prompt\":\"\xff\"}").code, "invalid_json");
  EXPECT_EQ(Bad("{\"prompt\":\"\xed\xa0\x80\"}").code, "invalid_json");
  EXPECT_EQ(std::get<std::string>(Ok(R"({"prompt":"\ud83d\ude00"})").prompt), "\xf0\x9f\x98\x80");
}

TEST(CompletionRequestTest, NestingAndMemoryAreBounded) {
  EXPECT_EQ(Ok(With(R"("x":)" + std::string(30, '[') + std::string(30, ']'))).unknown_fields, 1);
  EXPECT_EQ(Bad(With(R"("x":)" + std::string(100, '[') + std::string(100, ']'))).code,
            "invalid_json");
  EXPECT_EQ(Bad(std::string(1 << 20, '[')).code, "invalid_json");
  std::string numbers = R"({"prompt":[1)";
  for (int i = 0; i < 10'000'000; ++i) numbers += ",1";
  ApiError error = Bad(numbers + "]}");
  EXPECT_EQ(error.status, 413) << error.message;
}

TEST(CompletionRequestTest, RandomlyDamagedBodiesGetAnAnswer) {
  const std::string body = ChatWith(
      R"("temperature":0.5,"stop":["a","b"],"stream":true,"stream_options":{"include_usage":true})");
  SplitMix64 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = body;
    for (std::uint64_t n = 1 + random.Below(3); n > 0; --n) {
      damaged[random.Below(damaged.size())] = static_cast<char>(random.Below(256));
    }
    auto parsed = ParseCompletionRequest(damaged, CompletionKind::kChat);
    if (const ApiError* error = std::get_if<ApiError>(&parsed)) {
      EXPECT_EQ(error->status, 400);
      EXPECT_FALSE(error->message.empty());
    }
  }
}

}  // namespace
}  // namespace tandem::router
