#include "router/api/completion_call.h"

#include <future>

#include "tests/unit/router/api/call_fixture.h"

namespace tandem::router {
namespace {

namespace json = boost::json;

class CompletionCallTest : public CallFixture {};

TEST_F(CompletionCallTest, StreamsAsTheContractSays) {
  auto exchange = Chat(R"(,"stream":true,"stream_options":{"include_usage":true})");
  ASSERT_EQ(backend_.running.size(), 1u);
  EXPECT_FALSE(exchange->streamed) << "headers wait for the first text";
  backend_.Give(Bytes("Hi"));
  backend_.Give(Bytes(" there"));
  backend_.cached = TokenCount(2);
  backend_.Finish(sequence::FinishReason::kLength);

  ASSERT_TRUE(exchange->streamed);
  EXPECT_TRUE(exchange->done);
  EXPECT_EQ(exchange->response->content_type, "text/event-stream");
  ASSERT_EQ(exchange->events.size(), 5u);
  EXPECT_EQ(exchange->events.back(), kDoneEvent);
  const json::value first = Data(exchange->events[0]);
  EXPECT_EQ(first.at("choices").at(0).at("delta").at("role"), "assistant");
  EXPECT_EQ(first.at("choices").at(0).at("delta").at("content"), "Hi");
  int finishes = 0;
  for (std::size_t i = 0; i + 1 < exchange->events.size(); ++i) {
    const json::value value = Data(exchange->events[i]);
    for (const char* key : {"id", "object", "created", "model"}) {
      EXPECT_EQ(value.at(key), first.at(key)) << i;
    }
    if (i + 2 < exchange->events.size()) {
      EXPECT_TRUE(value.at("usage").is_null());
      finishes += !value.at("choices").at(0).at("finish_reason").is_null();
    }
  }
  EXPECT_EQ(finishes, 1);
  EXPECT_EQ(Data(exchange->events[2]).at("choices").at(0).at("finish_reason"), "length");
  const json::value usage = Data(exchange->events[3]);
  EXPECT_TRUE(usage.at("choices").as_array().empty());
  EXPECT_EQ(usage.at("usage").at("completion_tokens"), 8);
  EXPECT_EQ(usage.at("usage").at("prompt_tokens_details").at("cached_tokens"), 2);
}

TEST_F(CompletionCallTest, WithoutIncludeUsageThereIsNone) {
  auto exchange = Text(R"(,"stream":true,"stream_options":{})");
  backend_.Give(Bytes("Hi"));
  backend_.Finish(sequence::FinishReason::kStop);
  ASSERT_EQ(exchange->events.size(), 3u);
  EXPECT_EQ(exchange->events[0].find("usage"), std::string::npos);
  EXPECT_EQ(Data(exchange->events[1]).at("choices").at(0).at("finish_reason"), "stop");
}

TEST_F(CompletionCallTest, DeltasJoinedEqualTheWholeAnswer) {
  const std::string text = "na\xc3\xafve \xf0\x9f\x98\x80 \xe2\x82\xac!";
  auto streamed = Chat(R"(,"stream":true)");
  for (TokenId id : Bytes(text)) backend_.Give(std::span(&id, 1));
  backend_.Finish(sequence::FinishReason::kLength);
  EXPECT_EQ(Joined(*streamed), text);
  EXPECT_LT(streamed->events.size(), text.size() + 2) << "characters are whole";

  auto whole = Chat("");
  for (TokenId id : Bytes(text)) backend_.Give(std::span(&id, 1));
  backend_.Finish(sequence::FinishReason::kLength);
  const json::value value = json::parse(whole->response->body);
  EXPECT_EQ(std::string(value.at("choices").at(0).at("message").at("content").as_string()), text);
}

TEST_F(CompletionCallTest, ACharacterThatNeverCompletesIsReplaced) {
  auto exchange = Text(R"(,"stream":true)");
  backend_.Give(Bytes("a\xe2\x82"));
  backend_.Finish(sequence::FinishReason::kLength);
  EXPECT_EQ(Joined(*exchange), "a\xef\xbf\xbd");
}

TEST_F(CompletionCallTest, AStopStringOverTokensEndsTheRequest) {
  for (const char* more : {R"(,"stop":["END"],"stream":true)", R"(,"stop":"END")"}) {
    auto exchange = Text(more);
    backend_.Give(Bytes("one E"));
    backend_.Give(Bytes("N"));
    backend_.Give(Bytes("Dtwo"));
    EXPECT_EQ(backend_.stopped_at, Position(6)) << more;
    EXPECT_TRUE(exchange->done);
    if (exchange->streamed) {
      EXPECT_EQ(Joined(*exchange), "one ");
    } else {
      const json::value value = json::parse(exchange->response->body);
      EXPECT_EQ(value.at("choices").at(0).at("text"), "one ");
      EXPECT_EQ(value.at("choices").at(0).at("finish_reason"), "stop");
      EXPECT_EQ(value.at("usage").at("completion_tokens"), 7);
    }
  }
}

TEST_F(CompletionCallTest, AHeldBackBeginningIsGivenAtTheEnd) {
  auto exchange = Text(R"(,"stop":["END"],"stream":true)");
  backend_.Give(Bytes("one EN"));
  EXPECT_EQ(Joined(*exchange), "one ");
  backend_.Finish(sequence::FinishReason::kLength);
  EXPECT_EQ(Joined(*exchange), "one EN");
}

TEST_F(CompletionCallTest, TheEndTokenHasNoText) {
  auto exchange = Chat(R"(,"stream":true)");
  TokenIds ids = Bytes("Hi");
  ASSERT_FALSE(model_.tokenizer().end_of_generation().empty());
  ids.push_back(model_.tokenizer().end_of_generation().front());
  backend_.Give(ids);
  backend_.Finish(sequence::FinishReason::kStop);
  EXPECT_EQ(Joined(*exchange), "Hi");
}

TEST_F(CompletionCallTest, AnAnswerWithoutTextIsStillAStream) {
  auto exchange = Chat(R"(,"stream":true)");
  backend_.Give(std::span(model_.tokenizer().end_of_generation()).first(1));
  backend_.Finish(sequence::FinishReason::kStop);
  ASSERT_EQ(exchange->events.size(), 2u);
  const json::value only = Data(exchange->events[0]);
  EXPECT_EQ(only.at("choices").at(0).at("delta").at("role"), "assistant");
  EXPECT_EQ(only.at("choices").at(0).at("finish_reason"), "stop");
}

TEST_F(CompletionCallTest, ParametersReachTheBackend) {
  Text(R"(,"max_tokens":5,"temperature":0,"top_p":0.5,"top_k":7,"min_p":0.25,"seed":9,
          "stop_token_ids":[5,4])");
  const sequence::SamplingParams& params = backend_.running.front().generation.params;
  EXPECT_EQ(params.max_tokens, TokenCount(5));
  EXPECT_TRUE(params.greedy());
  EXPECT_EQ(params.top_p, 0.5f);
  EXPECT_EQ(params.top_k, 7);
  EXPECT_EQ(params.min_p, 0.25f);
  EXPECT_EQ(params.seed, 9u);
  EXPECT_TRUE(params.Stops(TokenId(4)));
  EXPECT_TRUE(params.Stops(TokenId(5)));
  EXPECT_TRUE(params.Stops(model_.tokenizer().end_of_generation().front()));
}

TEST_F(CompletionCallTest, IgnoreEosLeavesOnlyTheClientsStops) {
  Text(R"(,"ignore_eos":true,"stop_token_ids":[5])");
  EXPECT_EQ(backend_.running.front().generation.params.stop_token_ids, TokenIds{TokenId(5)});
}

TEST_F(CompletionCallTest, WithoutMaxTokensTheContextIsTheLimit) {
  Text("");
  const Generation& generation = backend_.running.front().generation;
  EXPECT_EQ(generation.params.max_tokens.value(),
            64 - static_cast<std::int32_t>(generation.tokens->size()));
}

TEST_F(CompletionCallTest, OverTheContextIsRefusedWithNumbers) {
  auto with_max = Text(R"(,"max_tokens":64)");
  EXPECT_EQ(with_max->response->status, 400);
  EXPECT_EQ(ErrorCode(*with_max->response), "context_length_exceeded");
  EXPECT_NE(with_max->response->body.find("64 tokens"), std::string::npos);
  std::string ids = "[3";
  for (int i = 1; i < 64; ++i) ids += ",3";
  auto too_long = Post("/v1/completions", R"({"prompt":)" + ids + "]}");
  EXPECT_EQ(ErrorCode(*too_long->response), "context_length_exceeded");
  EXPECT_TRUE(backend_.running.empty());
}

TEST_F(CompletionCallTest, IdsOutsideTheVocabularyAreRefused) {
  EXPECT_EQ(Post("/v1/completions", R"({"prompt":[1,99999]})")->response->status, 400);
  EXPECT_EQ(Text(R"(,"stop_token_ids":[99999])")->response->status, 400);
}

TEST_F(CompletionCallTest, AnUnknownModelIsA404ThatListsTheIds) {
  auto exchange = Text(R"(,"model":"other")");
  EXPECT_EQ(exchange->response->status, 404);
  EXPECT_EQ(ErrorCode(*exchange->response), "model_not_found");
  EXPECT_NE(exchange->response->body.find("m, alias"), std::string::npos);
  EXPECT_FALSE(Text(R"(,"model":"alias")")->response);
}

TEST_F(CompletionCallTest, ChatGoesThroughTheTemplate) {
  Chat("");
  const TokenIds chat = *backend_.running.front().generation.tokens;
  backend_.Finish(sequence::FinishReason::kLength);
  Post("/v1/completions",
       R"({"prompt":"<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"})");
  EXPECT_EQ(chat, *backend_.running.front().generation.tokens);
}

TEST_F(CompletionCallTest, SpecialTokensInMessagesArePlainText) {
  Post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"<|im_end|>"}]})");
  const TokenIds& ids = *backend_.running.front().generation.tokens;
  const TokenId end(2);  // <|im_end|>
  EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 1) << "only the template's own";
}

TEST_F(CompletionCallTest, AClientThatLeavesIsCancelled) {
  auto waiting = Text("");
  waiting->Leave();
  EXPECT_EQ(backend_.clients_gone, 1);
  EXPECT_TRUE(backend_.running.empty());
  auto streaming = Text(R"(,"stream":true)");
  backend_.Give(Bytes("Hi"));
  streaming->Leave();
  EXPECT_EQ(backend_.clients_gone, 2);
  EXPECT_FALSE(streaming->done);
}

TEST_F(CompletionCallTest, FailuresBeforeTextAreAStatus) {
  auto exchange = Text(R"(,"stream":true)");
  backend_.Fail(DeadlineExceeded("the request's deadline passed"));
  EXPECT_EQ(exchange->response->status, 504);
  EXPECT_FALSE(exchange->streamed);
  backend_.refuse = ResourceExhausted("too much waits");
  auto refused = Text("");
  EXPECT_EQ(refused->response->status, 429);
  backend_.refuse = OkStatus();
  backend_.refuse = Unavailable("no pair was usable for 10 s");
  EXPECT_EQ(Text("")->response->status, 503);
}

TEST_F(CompletionCallTest, ARefusalSaysWhenToComeAgain) {
  backend_.refuse = ResourceExhausted("8 requests are unfinished, the limit is 8");
  backend_.retry_after = std::chrono::milliseconds(12'300);
  const auto header = [](const net::HttpResponse& response, std::string_view name) {
    for (const net::HttpHeader& h : response.headers) {
      if (h.name == name) return h.value;
    }
    return std::string();
  };
  const net::HttpResponse refused = *Text("")->response;
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(header(refused, "retry-after"), "13");
  EXPECT_EQ(header(refused, "x-should-retry"), "") << "a retry may help";

  // A large body is refused before it is read; a small one is cheaper read than cut off.
  net::HttpRequest head;
  head.method = "POST";
  head.path = "/v1/completions";
  head.headers = {{"content-length", "20000000"}};
  const auto early = handler_.Check(head);
  ASSERT_TRUE(early.has_value());
  EXPECT_EQ(early->status, 429);
  EXPECT_EQ(header(*early, "retry-after"), "13");
  head.headers = {{"transfer-encoding", "chunked"}};
  EXPECT_TRUE(handler_.Check(head).has_value());
  head.headers = {{"content-length", "200"}};
  EXPECT_FALSE(handler_.Check(head).has_value());
  backend_.refuse = OkStatus();
  head.headers = {{"content-length", "20000000"}};
  EXPECT_FALSE(handler_.Check(head).has_value());
}

TEST_F(CompletionCallTest, TheNodeGetsCreditForWhatTheClientsSocketTook) {
  auto exchange = Text(R"(,"stream":true)");
  backend_.Give(Bytes("Hi"));
  EXPECT_EQ(backend_.consumed, 2);
  exchange->unsent = 100'000;  // the client reads slowly
  backend_.Give(Bytes("abc"));
  EXPECT_EQ(backend_.consumed, 2);
  exchange->unsent = 50'000;
  backend_.Give(Bytes("d"));
  EXPECT_EQ(backend_.consumed, 2);
  exchange->Take();
  EXPECT_EQ(backend_.consumed, 6);
  exchange->Take();
  EXPECT_EQ(backend_.consumed, 6) << "once";
  backend_.Finish(sequence::FinishReason::kLength);
  EXPECT_EQ(Joined(*exchange), "Hiabcd");
}

TEST_F(CompletionCallTest, ARequestIsTakenWhileNoPairIsUsable) {
  backend_.is_ready = false;
  Text("");
  EXPECT_EQ(backend_.running.size(), 1u) << "the backend decides how long it waits";
}

TEST_F(CompletionCallTest, AClientMayGiveItsRequestLessTime) {
  const auto remaining = [&](std::vector<net::HttpHeader> headers) {
    Post("/v1/completions", R"({"prompt":"Hello"})", std::move(headers));
    return backend_.running.back().generation.deadline.Remaining(SteadyNow());
  };
  const Duration given = remaining({{"x-request-timeout-ms", "30000"}});
  EXPECT_LE(given, std::chrono::seconds(30));
  EXPECT_GT(given, std::chrono::seconds(0));
  EXPECT_GT(remaining({}), std::chrono::seconds(30));
  EXPECT_LE(remaining({{"x-request-timeout-ms", "99999999999"}}), std::chrono::minutes(1))
      << "the server's limit";
}

TEST_F(CompletionCallTest, FailuresAfterTextAreAnEvent) {
  auto exchange = Text(R"(,"stream":true)");
  backend_.Give(Bytes("Hi"));
  backend_.Fail(Internal("three nodes died"));
  ASSERT_EQ(exchange->events.size(), 3u);
  EXPECT_EQ(Data(exchange->events[1]).at("error").at("message"), "three nodes died");
  EXPECT_EQ(exchange->events[2], kDoneEvent);
  EXPECT_TRUE(exchange->done);
}

TEST_F(CompletionCallTest, TimingsAreOnTheLastEvent) {
  auto exchange = Text(R"(,"stream":true,"timings":true)");
  backend_.Give(Bytes("Hi"));
  backend_.Finish(sequence::FinishReason::kLength);
  const json::value timings = Data(exchange->events[1]).at("timings");
  EXPECT_EQ(timings.at("attempts"), 1);
  EXPECT_EQ(timings.at("prefill_node"), "p0");
  auto whole = Text(R"(,"timings":true)");
  backend_.Finish(sequence::FinishReason::kLength);
  EXPECT_TRUE(json::parse(whole->response->body).as_object().contains("timings"));
}

TEST_F(CompletionCallTest, ALongPromptIsPreparedOffTheStrand) {
  const std::string text(20 << 10, 'x');
  auto exchange = Post("/v1/completions", R"({"prompt":")" + text + R"("})");
  // The answer (too long for this context) comes over the strand; wait for what is posted there.
  for (bool answered = false; !answered;) {
    std::promise<bool> look;
    strand_.Post([&] { look.set_value(exchange->done); });
    answered = look.get_future().get();
  }
  EXPECT_EQ(ErrorCode(*exchange->response), "context_length_exceeded");
}

TEST_F(CompletionCallTest, RequestIdsAreEchoed) {
  auto exchange = Post("/v1/completions", "{", {{"x-request-id", "mine"}});
  bool echoed = false;
  for (const auto& header : exchange->response->headers) {
    echoed |= header.name == "x-request-id" && header.value == "mine";
  }
  EXPECT_TRUE(echoed);
}

class NoTemplateTest : public CallFixture {
 protected:
  NoTemplateTest() : CallFixture("{% nonsense %}") {}
};

TEST_F(NoTemplateTest, ChatIsRefusedAndCompletionsWork) {
  auto chat = Chat("");
  EXPECT_EQ(chat->response->status, 400);
  EXPECT_EQ(ErrorCode(*chat->response), "chat_template_unsupported");
  EXPECT_FALSE(Text("")->response);
  EXPECT_EQ(backend_.running.size(), 1u);
}

}  // namespace
}  // namespace tandem::router
