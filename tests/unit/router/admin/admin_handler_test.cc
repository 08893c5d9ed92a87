#include "router/admin/admin_handler.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "tests/unit/router/api/fakes.h"

namespace tandem::router {
namespace {

namespace json = boost::json;

class FakeCluster : public ClusterAdmin {
 public:
  std::vector<NodeStatus> NodeStatuses() const override {
    NodeStatus prefill{.name = "p 0", .role = "prefill", .address = "127.0.0.1:1", .state = "up"};
    prefill.usable_pairs = 1;
    prefill.step_running = std::chrono::milliseconds(12);
    NodeStatus decode{.name = "d\xff", .role = "decode", .address = "127.0.0.1:2", .state = "lost"};
    decode.last_error = "connection \"refused\"";
    return {prefill, decode};
  }
  Status DrainNode(std::string_view name, Duration budget) override {
    if (name == "gone") return FailedPrecondition("node 'gone' is not connected");
    if (name != "p 0") return NotFound("there is no node '{}'", name);
    drained = budget;
    return OkStatus();
  }
  Duration drained{-1};
};

class AdminHandlerTest : public ::testing::Test {
 protected:
  net::HttpResponse Call(std::string method, std::string path, std::string body = "",
                         std::vector<net::HttpHeader> headers = {
                             {"content-type", "application/json"}}) {
    net::HttpRequest request;
    request.method = std::move(method);
    request.path = std::move(path);
    request.headers = std::move(headers);
    if (auto refusal = handler_.Check(request)) return *refusal;
    request.body = std::move(body);
    auto exchange = std::make_shared<FakeExchange>(std::move(request));
    handler_.Handle(exchange);
    return *exchange->response;
  }

  FakeCluster cluster_;
  ApiKeys keys_{{}};
  AdminHandler handler_{cluster_, keys_};
};

TEST_F(AdminHandlerTest, ShowsTheNodes) {
  const net::HttpResponse answer = Call("GET", "/nodes");
  EXPECT_EQ(answer.status, 200);
  const json::value value = json::parse(answer.body);
  EXPECT_EQ(value.at("usable_pairs"), 1);
  EXPECT_EQ(value.at("nodes").at(0).at("name"), "p 0");
  EXPECT_EQ(value.at("nodes").at(0).at("step_running_ms"), 12.0);
  EXPECT_TRUE(value.at("nodes").at(0).at("last_error").is_null());
  EXPECT_EQ(value.at("nodes").at(1).at("state"), "lost");
  EXPECT_EQ(value.at("nodes").at(1).at("last_error"), "connection \"refused\"");
}

TEST_F(AdminHandlerTest, Drains) {
  EXPECT_EQ(Call("POST", "/nodes/p%200/drain", R"({"budget_ms":1500})").status, 202);
  EXPECT_EQ(cluster_.drained, std::chrono::milliseconds(1500));
  EXPECT_EQ(Call("POST", "/nodes/p%200/drain").status, 202);
  EXPECT_EQ(cluster_.drained, std::chrono::seconds(60));
}

TEST_F(AdminHandlerTest, SaysWhatCannotBeDrained) {
  const net::HttpResponse unknown = Call("POST", "/nodes/x/drain");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_NE(unknown.body.find("there is no node 'x'"), std::string::npos);
  EXPECT_EQ(Call("POST", "/nodes/gone/drain").status, 409);
  for (const char* body : {R"({"budget_ms":-1})", R"({"budget_ms":"1"})", R"({"budget_ms":1e99})",
                           R"({"budget":5})", "[", R"({"budget_ms":99999999999})"}) {
    EXPECT_EQ(Call("POST", "/nodes/p%200/drain", body).status, 400) << body;
  }
  EXPECT_EQ(cluster_.drained, Duration(-1));
}

TEST_F(AdminHandlerTest, TakesNothingElse) {
  EXPECT_EQ(Call("GET", "/").status, 404);
  EXPECT_EQ(Call("GET", "/v1/models").status, 404);
  EXPECT_EQ(Call("POST", "/nodes//drain").status, 404);
  EXPECT_EQ(Call("POST", "/nodes/%2/drain").status, 404);
  EXPECT_EQ(Call("POST", "/nodes/%zz/drain").status, 404);
  EXPECT_EQ(Call("POST", "/nodes").status, 405);
  EXPECT_EQ(Call("GET", "/nodes/p%200/drain").status, 405);
  EXPECT_EQ(Call("OPTIONS", "/nodes/p%200/drain").status, 405);
  EXPECT_EQ(Call("POST", "/nodes/p%200/drain", "", {{"content-type", "text/plain"}}).status, 415)
      << "a web page could send it";
}

TEST_F(AdminHandlerTest, KeysGuardItToo) {
  const ApiKeys keys({"secret"});
  AdminHandler guarded(cluster_, keys);
  net::HttpRequest request;
  request.method = "GET";
  request.path = "/nodes";
  ASSERT_TRUE(guarded.Check(request).has_value());
  EXPECT_EQ(guarded.Check(request)->status, 401);
  request.headers = {{"authorization", "Bearer secret"}};
  EXPECT_FALSE(guarded.Check(request).has_value());
}

}  // namespace
}  // namespace tandem::router
