#include "router/api/api_handler.h"

#include <map>

#include "tests/unit/router/api/call_fixture.h"

namespace tandem::router {
namespace {

namespace json = boost::json;

class ApiHandlerTest : public CallFixture {};

net::HttpRequest Head(std::string method, std::string path,
                      std::vector<net::HttpHeader> headers = {}) {
  net::HttpRequest request;
  request.method = std::move(method);
  request.path = std::move(path);
  request.headers = std::move(headers);
  return request;
}

TEST_F(ApiHandlerTest, ABrowserAsksWithoutAKeyAndLearnsWhoMay) {
  const ApiKeys keys({"secret"});
  ApiHandler handler(context_, keys, registry_, "0.0.1", CorsPolicy({"https://app.example"}));
  const auto ask = [&](std::string_view origin) {
    net::HttpRequest request;
    request.method = "OPTIONS";
    request.path = "/v1/chat/completions";
    request.headers = {{"origin", std::string(origin)},
                       {"access-control-request-method", "POST"},
                       {"access-control-request-headers", "authorization,x-custom"}};
    EXPECT_FALSE(handler.Check(request).has_value());
    auto exchange = std::make_shared<FakeExchange>(request);
    handler.Handle(exchange);
    std::map<std::string, std::string> headers;
    EXPECT_EQ(exchange->response->status, 200);
    for (const auto& h : exchange->response->headers) headers[h.name] = h.value;
    for (const auto& h : handler.CommonHeaders(request)) headers[h.name] = h.value;
    return headers;
  };
  auto allowed = ask("https://app.example");
  EXPECT_EQ(allowed["access-control-allow-origin"], "https://app.example");
  EXPECT_EQ(allowed["access-control-allow-methods"], "POST, OPTIONS");
  EXPECT_EQ(allowed["access-control-allow-headers"], "authorization,x-custom");
  EXPECT_EQ(allowed["vary"], "origin");
  auto other = ask("https://evil.example");
  EXPECT_EQ(other.count("access-control-allow-origin"), 0u);
  EXPECT_EQ(other.count("access-control-allow-methods"), 0u);

  net::HttpRequest post;
  post.method = "POST";
  post.path = "/v1/completions";
  EXPECT_EQ(handler.Check(post)->status, 401) << "the request itself needs the key";
  post.method = "OPTIONS";
  post.path = "/nothing/here";
  EXPECT_TRUE(handler.Check(post).has_value());
}

TEST_F(ApiHandlerTest, WithoutOriginsNoPageMay) {
  net::HttpRequest request;
  request.headers = {{"origin", "https://app.example"}};
  EXPECT_TRUE(handler_.CommonHeaders(request).empty());
  EXPECT_EQ(CorsPolicy({"*"}).Headers(request)[0].value, "*");
  EXPECT_TRUE(CorsPolicy::CheckOrigin("*").ok());
  EXPECT_TRUE(CorsPolicy::CheckOrigin("http://localhost:3000").ok());
  for (const char* wrong : {"", "app.example", "https://", "https://a/b", "https://a b", "://a"}) {
    EXPECT_FALSE(CorsPolicy::CheckOrigin(wrong).ok()) << wrong;
  }
}

TEST_F(ApiHandlerTest, ATimeoutThatIsNoNumberIsRefusedBeforeTheBody) {
  for (const char* text : {"0", "-1", "1.5", "soon", "", "1e3", "99999999999999999999999"}) {
    net::HttpRequest head;
    head.method = "POST";
    head.path = "/v1/completions";
    head.headers = {{"x-request-timeout-ms", text}};
    const auto refusal = handler_.Check(head);
    ASSERT_TRUE(refusal.has_value()) << text;
    EXPECT_EQ(refusal->status, 400);
    EXPECT_NE(refusal->body.find("x-request-timeout-ms"), std::string::npos);
    EXPECT_EQ(Post("/v1/completions", R"({"prompt":"Hello"})", head.headers)->response->status,
              400);
  }
}

TEST_F(ApiHandlerTest, HeadsAreJudged) {
  const auto status = [&](const net::HttpRequest& head) {
    auto response = handler_.Check(head);
    return response ? response->status : 200;
  };
  EXPECT_EQ(status(Head("GET", "/nowhere")), 404);
  EXPECT_EQ(status(Head("GET", "/v1/chat/completions")), 405);
  EXPECT_EQ(status(Head("POST", "/health")), 405);
  EXPECT_EQ(status(Head("POST", "/v1/completions", {{"content-type", "text/plain"}})), 415);
  EXPECT_EQ(status(Head("POST", "/v1/completions",
                        {{"content-type", "application/json; charset=utf-8"}})),
            200);
  EXPECT_EQ(status(Head("POST", "/v1/completions")), 200);
  EXPECT_EQ(status(Head("GET", "/v1/models/m")), 200);
  auto wrong = handler_.Check(Head("GET", "/v1/completions"));
  EXPECT_EQ(json::parse(wrong->body).at("error").at("code"), "method_not_allowed");

  ApiKeys keys({"secret"});
  ApiHandler closed(context_, keys, registry_, "0.0.1");
  EXPECT_EQ(closed.Check(Head("GET", "/health"))->status, 401);
  EXPECT_EQ(closed.Check(Head("GET", "/nowhere"))->status, 401);
  EXPECT_FALSE(closed.Check(Head("GET", "/health/live")));
  EXPECT_FALSE(closed.Check(Head("GET", "/health", {{"authorization", "Bearer secret"}})));
}

TEST_F(ApiHandlerTest, OtherPathsAnswer) {
  const auto get = [&](std::string path) {
    auto exchange = std::make_shared<FakeExchange>(Head("GET", std::move(path)));
    handler_.Handle(exchange);
    return *exchange->response;
  };
  const json::value models = json::parse(get("/v1/models").body);
  ASSERT_EQ(models.at("data").as_array().size(), 2u);
  EXPECT_EQ(models.at("data").at(0).at("id"), "m");
  EXPECT_EQ(models.at("data").at(1).at("id"), "alias");
  EXPECT_EQ(models.at("data").at(1).at("root"), "m");
  EXPECT_EQ(models.at("data").at(0).at("max_model_len"), 64);
  EXPECT_EQ(json::parse(get("/v1/models/alias").body).at("id"), "alias");
  EXPECT_EQ(get("/v1/models/other").status, 404);
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/health/live").status, 200);
  EXPECT_EQ(json::parse(get("/version").body).at("version"), "0.0.1");
  EXPECT_NE(get("/metrics").body.find("# fake"), std::string::npos);
  backend_.is_ready = false;
  EXPECT_EQ(get("/health").status, 503);
  EXPECT_EQ(get("/health/live").status, 200);
}

}  // namespace
}  // namespace tandem::router
