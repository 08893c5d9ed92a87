// Stand-ins for what surrounds the API: a client's exchange and a backend that the test drives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/net/http_exchange.h"
#include "router/api/generation.h"

namespace tandem::router {

// Records what is answered.
class FakeExchange : public net::HttpExchange {
 public:
  explicit FakeExchange(net::HttpRequest request) : request_(std::move(request)) {}

  const net::HttpRequest& request() const override { return request_; }
  net::HttpBody TakeBody() override { return {std::exchange(request_.body, {})}; }
  std::string_view peer() const override { return "127.0.0.1:1"; }
  bool open() const override { return !done && !gone; }
  void Respond(net::HttpResponse answer) override {
    if (gone) return;
    response = std::move(answer);
    done = true;
  }
  void StartStream(net::HttpResponse answer) override {
    if (gone) return;
    response = std::move(answer);
    streamed = true;
  }
  void WriteEvent(std::string_view event) override {
    if (!gone) events.emplace_back(event);
  }
  void EndStream() override { done = !gone; }
  std::size_t unsent_bytes() const override { return unsent; }
  void OnTaken(std::function<void()> call) override { on_taken_ = std::move(call); }
  void OnGone(std::function<void(net::GoneReason)> call) override { on_gone_ = std::move(call); }

  void Leave() {
    gone = true;
    if (on_gone_) std::exchange(on_gone_, nullptr)(net::GoneReason::kDisconnected);
  }

  // The socket took what was written.
  void Take() {
    unsent = 0;
    on_taken_();
  }

  std::size_t unsent = 0;
  std::optional<net::HttpResponse> response;
  std::vector<std::string> events;
  bool streamed = false;
  bool done = false;
  bool gone = false;

 private:
  net::HttpRequest request_;
  std::function<void(net::GoneReason)> on_gone_;
  std::function<void()> on_taken_;
};

// Keeps what was submitted; the test says which tokens come. Like the real one it answers
// ClientGone and StopMatched with Finished, after the call in which they come.
class FakeBackend : public GenerationBackend {
 public:
  struct Running {
    handoff::RequestId id;
    Generation generation;
    std::shared_ptr<GenerationSink> sink;
    Bill bill;
  };

  StatusOr<handoff::RequestId> Submit(Generation generation,
                                      std::shared_ptr<GenerationSink> sink) override {
    if (!refuse.ok()) return refuse;
    handoff::RequestId id{handoff::Incarnation(1), ++last_number_};
    Bill bill;
    bill.attempts = 1;
    bill.prefill_node = std::string("p0");
    bill.decode_node = std::string("d0");
    bill.arrived = SteadyNow();
    bill.dispatched = bill.arrived;
    running.push_back({id, std::move(generation), std::move(sink), bill});
    return id;
  }
  void ClientGone(handoff::RequestId request) override {
    ++clients_gone;
    Finish(request, Cancelled("the client left"), sequence::FinishReason::kNone);
  }
  void StopMatched(handoff::RequestId request, Position position) override {
    stopped_at = position;
    stop_request_ = request;
  }
  void Consumed(handoff::RequestId, std::int32_t positions) override { consumed += positions; }
  Status Admission() const override { return refuse; }
  Duration RetryAfter() const override { return retry_after; }
  bool ready() const override { return is_ready; }
  TokenCount context() const override { return TokenCount(64); }
  std::string HealthJson() const override { return R"({"status":"fake"})"; }
  std::string MetricsText() const override { return "# fake\n"; }

  // Delivers tokens of the only request.
  void Give(std::span<const TokenId> tokens) {
    Running& request = running.front();
    const Position first(request.bill.delivered.value());
    if (request.bill.first_token == Time{}) request.bill.first_token = SteadyNow();
    request.bill.last_token = SteadyNow();
    request.bill.delivered += TokenCount(static_cast<std::int32_t>(tokens.size()));
    auto sink = request.sink;
    sink->OnTokens(first, tokens);
    if (stop_request_) {
      Finish(*std::exchange(stop_request_, std::nullopt), OkStatus(),
             sequence::FinishReason::kStop);
    }
  }
  void Finish(sequence::FinishReason finish) { Finish(running.front().id, OkStatus(), finish); }
  void Fail(const Status& status) {
    Finish(running.front().id, status, sequence::FinishReason::kNone);
  }

  bool is_ready = true;
  std::int32_t consumed = 0;  // positions
  Duration retry_after = std::chrono::seconds(1);
  Status refuse;
  TokenCount cached{0};
  std::vector<Running> running;
  std::optional<Position> stopped_at;
  int clients_gone = 0;

 private:
  void Finish(handoff::RequestId id, const Status& status, sequence::FinishReason finish) {
    for (auto it = running.begin(); it != running.end(); ++it) {
      if (it->id != id) continue;
      Running request = std::move(*it);
      running.erase(it);
      request.bill.times.cached_tokens = cached;
      request.sink->OnFinished(status, finish, request.bill);
      return;
    }
  }

  std::uint64_t last_number_ = 0;
  std::optional<handoff::RequestId> stop_request_;
};

}  // namespace tandem::router
