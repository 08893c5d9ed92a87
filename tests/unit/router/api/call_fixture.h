// The API over fakes of the client and of the cluster.
#pragma once

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "router/api/api_handler.h"
#include "tests/testing/test_tokenizer.h"
#include "tests/unit/router/api/fakes.h"
#include "tests/unit/router/api/test_served_model.h"

namespace tandem::router {

// All in the test's thread but the work queue and the strand it posts to.
class CallFixture : public ::testing::Test {
 protected:
  CallFixture() : CallFixture(std::string(testing::ChatMlTemplate())) {}
  explicit CallFixture(std::string chat_template)
      : model_(MakeServedModel(std::move(chat_template))),
        context_{.model = model_,
                 .backend = backend_,
                 .work = work_,
                 .strand = strand_,
                 .probe = probe_,
                 .deadline = std::chrono::minutes(1),
                 .inline_bytes = 16 << 10,
                 .random = [this] { return ++random_; },
                 .unix_time_s = [] { return 1234; }},
        handler_(context_, keys_, registry_, "0.0.1") {}
  ~CallFixture() override { io_.Stop(); }

  std::shared_ptr<FakeExchange> Post(std::string path, std::string body,
                                     std::vector<net::HttpHeader> headers = {}) {
    net::HttpRequest request;
    request.method = "POST";
    request.path = std::move(path);
    request.headers = std::move(headers);
    request.body = std::move(body);
    auto exchange = std::make_shared<FakeExchange>(std::move(request));
    handler_.Handle(exchange);
    return exchange;
  }
  std::shared_ptr<FakeExchange> Chat(const std::string& more) {
    return Post("/v1/chat/completions",
                R"({"model":"m","messages":[{"role":"user","content":"Hello"}])" + more + "}");
  }
  std::shared_ptr<FakeExchange> Text(const std::string& more) {
    return Post("/v1/completions", R"({"prompt":"Hello")" + more + "}");
  }

  TokenIds Bytes(std::string_view text) const { return ByteTokens(model_, text); }

  static boost::json::value Data(const std::string& event) {
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    return boost::json::parse(event.substr(6));
  }
  static std::string ErrorCode(const net::HttpResponse& response) {
    const boost::json::value value = boost::json::parse(response.body);
    const boost::json::value& code = value.at("error").at("code");
    return code.is_null() ? "" : std::string(code.as_string());
  }
  // The deltas of all events.
  static std::string Joined(const FakeExchange& exchange) {
    std::string out;
    for (const std::string& event : exchange.events) {
      if (event == kDoneEvent) continue;
      const boost::json::value value = Data(event);
      if (!value.as_object().contains("choices")) continue;
      for (const boost::json::value& choice : value.at("choices").as_array()) {
        const boost::json::object& object = choice.as_object();
        const boost::json::object& delta =
            object.contains("delta") ? object.at("delta").as_object() : object;
        const boost::json::value* text = delta.if_contains("content");
        if (text == nullptr) text = delta.if_contains("text");
        if (text != nullptr) out += text->as_string();
      }
    }
    return out;
  }

  metrics::Registry registry_;
  ApiProbe probe_{registry_};
  FakeBackend backend_;  // what still runs at the end tells the probe
  ServedModel model_;
  ApiKeys keys_{{}};
  net::IoThreads io_{1};
  net::Strand strand_{io_};
  WorkQueue work_{4};
  std::uint64_t random_ = 0;
  CallContext context_;
  ApiHandler handler_;
};

}  // namespace tandem::router
