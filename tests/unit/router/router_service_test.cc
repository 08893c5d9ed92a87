// The service with the real core and real control connections, against nodes played by the test.
#include "router/router_service.h"

#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/rpc/listener.h"

namespace tandem::router {
namespace {

using handoff::Message;
using handoff::Role;

rpc::Options FastRpc() {
  rpc::Options options;
  options.heartbeat_every = std::chrono::milliseconds(5);
  options.silence_limit = std::chrono::seconds(60);
  return options;
}

// A node that accepts every router and keeps what it is told.
class FakeNode {
 public:
  FakeNode(net::IoThreads& io, const net::Strand& strand, Role role, std::string name,
           std::uint64_t incarnation)
      : strand_(strand) {
    hello_.role = role;
    hello_.name = std::move(name);
    hello_.incarnation = handoff::Incarnation(incarnation);
    hello_.model_instance.bytes[0] = 1;
    hello_.layout = {.num_layers = 1, .num_kv_heads = 1, .head_dim = 16};
    hello_.numerics = "scalar";
    hello_.capacity = {
        .num_blocks = kv::BlockCount(64), .max_context = TokenCount(256), .max_sequences = 8};
    auto listener = rpc::Listener::Open(
        io, strand, {"127.0.0.1", 0}, FastRpc(),
        [this](rpc::ConnectionPtr connection) { OnConnection(std::move(connection)); });
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  net::HostPort address() const { return listener_->address(); }

  // On the strand.
  void Send(const Message& message) {
    if (connection_ != nullptr) connection_->Send(message);
  }
  void Leave() {
    if (connection_ != nullptr) connection_->Close(OkStatus());
  }

  // As Leave(), and nobody listens any more.
  void End() {
    listener_.reset();
    Leave();
  }

  // The next message of type T; others before it are dropped.
  template <typename T>
  T Wait() {
    MutexLock lock(mutex_);
    while (true) {
      auto has_some = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !inbox_.empty(); };
      mutex_.Await(has_some);
      Message message = std::move(inbox_.front());
      inbox_.pop_front();
      if (T* wanted = std::get_if<T>(&message)) return std::move(*wanted);
    }
  }

  handoff::Hello hello_;
  handoff::Heartbeat heartbeat_;  // changed on the strand

 private:
  void OnConnection(rpc::ConnectionPtr connection) {
    connection_ = std::move(connection);
    rpc::Connection::Handlers handlers;
    handlers.on_hello = [this](const handoff::Hello&) { connection_->Accept(); };
    handlers.on_message = [this](Message message) {
      if (std::holds_alternative<handoff::Heartbeat>(message)) return;
      MutexLock lock(mutex_);
      inbox_.push_back(std::move(message));
    };
    handlers.on_closed = [this, self = connection_.get()](const Status&) {
      if (connection_.get() == self) connection_ = nullptr;  // a newer one stays
    };
    handlers.heartbeat = [this] { return heartbeat_; };
    connection_->Start(hello_, std::move(handlers));
  }

  net::Strand strand_;
  std::unique_ptr<rpc::Listener> listener_;
  rpc::ConnectionPtr connection_;
  Mutex mutex_;
  std::deque<Message> inbox_ ABSL_GUARDED_BY(mutex_);
};

// Remembers an answer.
class Sink : public GenerationSink {
 public:
  void OnTokens(Position first, std::span<const TokenId> tokens) override {
    MutexLock lock(mutex_);
    EXPECT_EQ(first.value(), static_cast<std::int32_t>(tokens_.size()));
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }
  void OnFinished(const Status& status, sequence::FinishReason finish, const Bill& bill) override {
    MutexLock lock(mutex_);
    end_ = End{status, finish, bill};
  }

  struct End {
    Status status;
    sequence::FinishReason finish;
    Bill bill;
  };
  End WaitEnd() {
    MutexLock lock(mutex_);
    auto ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return end_.has_value(); };
    mutex_.Await(ended);
    return *end_;
  }
  void WaitTokens(std::size_t n) {
    MutexLock lock(mutex_);
    auto enough = [this, n]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return tokens_.size() >= n; };
    mutex_.Await(enough);
  }
  TokenIds tokens() {
    MutexLock lock(mutex_);
    return tokens_;
  }

 private:
  Mutex mutex_;
  TokenIds tokens_ ABSL_GUARDED_BY(mutex_);
  std::optional<End> end_ ABSL_GUARDED_BY(mutex_);
};

class RouterServiceTest : public ::testing::Test {
 protected:
  RouterServiceTest() {
    strand_.Run([&] {
      prefill_ = std::make_unique<FakeNode>(io_, strand_, Role::kPrefill, "p0", 11);
      decode_ = std::make_unique<FakeNode>(io_, strand_, Role::kDecode, "d0", 12);
      prefill_->heartbeat_.usable_sinks = {"d0"};
      prefill_->heartbeat_.free_blocks = decode_->heartbeat_.free_blocks = kv::BlockCount(64);
    });
  }
  ~RouterServiceTest() override {
    strand_.Run([&] {
      if (service_ != nullptr) service_->Disconnect();
      prefill_->Leave();
      decode_->Leave();
      if (twin_ != nullptr) twin_->Leave();
    });
    io_.Stop();
  }

  void StartService(std::vector<net::HostPort> more_decode = {}) {
    RouterService::Options options;
    options.prefill = {prefill_->address()};
    options.decode = std::move(more_decode);
    options.decode.push_back(decode_->address());
    options.core.incarnation = handoff::Incarnation(99);
    options.rpc = FastRpc();
    options.model_context = TokenCount(512);
    service_ = std::make_unique<RouterService>(io_, strand_, registry_, options);
    strand_.Run([&] { service_->Start(); });
  }
  void WaitReady(bool wanted = true) {
    for (bool ready = !wanted; ready != wanted;) strand_.Run([&] { ready = service_->ready(); });
  }

  StatusOr<handoff::RequestId> Submit(std::shared_ptr<Sink> sink, int prompt_tokens = 20) {
    Generation generation;
    TokenIds tokens;
    for (int i = 0; i < prompt_tokens; ++i) tokens.push_back(TokenId(i));
    generation.tokens = std::make_shared<const TokenIds>(std::move(tokens));
    generation.params.max_tokens = TokenCount(8);
    generation.deadline = Deadline::After(SteadyNow(), std::chrono::minutes(5));
    StatusOr<handoff::RequestId> id = Internal("not run");
    strand_.Run([&] { id = service_->Submit(std::move(generation), std::move(sink)); });
    return id;
  }

  // The prefill node's part up to the hand-off; returns the placement's key.
  handoff::PlacementKey PlayPrefill() {
    const auto prefill = prefill_->Wait<handoff::Prefill>();
    const handoff::PlacementKey key{prefill.request, prefill.attempt, handoff::Placement(1)};
    strand_.Run([&] {
      prefill_->Send(handoff::Accepted{prefill.request, prefill.attempt});
      prefill_->Send(handoff::Placed{key, "d0"});
    });
    prefill_->Wait<handoff::PlacementNoted>();
    return key;
  }
  void SendTokens(const handoff::PlacementKey& key, int first, TokenIds tokens,
                  sequence::FinishReason finish = sequence::FinishReason::kNone) {
    handoff::Tokens message{.key = key, .first = Position(first), .finish = finish};
    message.logprobs.assign(tokens.size(), -1.0f);
    message.tokens = std::move(tokens);
    strand_.Run([&] { decode_->Send(message); });
  }
  // A service with one request, of which one token came.
  handoff::RequestId StreamOne(const std::shared_ptr<Sink>& sink) {
    StartService();
    WaitReady();
    const auto id = Submit(sink);
    EXPECT_TRUE(id.ok()) << id.status();
    SendTokens(PlayPrefill(), 0, {TokenId(5)});
    sink->WaitTokens(1);
    return *id;
  }

  metrics::Registry registry_;
  net::IoThreads io_{1};
  net::Strand strand_{io_};
  std::unique_ptr<FakeNode> prefill_;
  std::unique_ptr<FakeNode> decode_;
  std::unique_ptr<FakeNode> twin_;  // as the others, it outlives the I/O threads
  std::unique_ptr<RouterService> service_;
};

TEST_F(RouterServiceTest, ARequestGoesThroughBothNodes) {
  StartService();
  WaitReady();
  strand_.Run([&] { EXPECT_EQ(service_->context(), TokenCount(256)) << "the nodes' is smaller"; });
  auto sink = std::make_shared<Sink>();
  ASSERT_TRUE(Submit(sink).ok());
  const handoff::PlacementKey key = PlayPrefill();
  SendTokens(key, 0, {TokenId(5), TokenId(6)});
  SendTokens(key, 2, {TokenId(7)}, sequence::FinishReason::kStop);
  const Sink::End end = sink->WaitEnd();
  EXPECT_TRUE(end.status.ok()) << end.status;
  EXPECT_EQ(end.finish, sequence::FinishReason::kStop);
  EXPECT_EQ(sink->tokens(), (TokenIds{TokenId(5), TokenId(6), TokenId(7)}));
  EXPECT_EQ(end.bill.prefill_node, "p0");
  EXPECT_EQ(end.bill.decode_node, "d0");
}

TEST_F(RouterServiceTest, APromptIsHashedForTheClassOfTheNodes) {
  StartService();
  WaitReady();
  ASSERT_TRUE(Submit(std::make_shared<Sink>(), 40).ok());
  const auto prefill = prefill_->Wait<handoff::Prefill>();
  ASSERT_NE(prefill.hashes, nullptr);
  EXPECT_EQ(prefill.hashes->size(), 2u) << "two granules of 16";
  EXPECT_EQ(prefill.model_instance, prefill_->hello_.model_instance);
}

TEST_F(RouterServiceTest, AClientThatLeavesIsCancelledOnBothNodes) {
  auto sink = std::make_shared<Sink>();
  const handoff::RequestId id = StreamOne(sink);
  strand_.Run([&] { service_->ClientGone(id); });
  EXPECT_EQ(prefill_->Wait<handoff::Cancel>().key.request, id);
  EXPECT_EQ(decode_->Wait<handoff::Cancel>().key.request, id);
  EXPECT_EQ(sink->WaitEnd().status.code(), absl::StatusCode::kCancelled);
}

TEST_F(RouterServiceTest, AStopStringEndsTheRequestEverywhere) {
  auto sink = std::make_shared<Sink>();
  const handoff::RequestId id = StreamOne(sink);
  strand_.Run([&] { service_->StopMatched(id, Position(0)); });
  const Sink::End end = sink->WaitEnd();
  EXPECT_TRUE(end.status.ok()) << end.status;
  EXPECT_EQ(end.finish, sequence::FinishReason::kStop);
  EXPECT_EQ(decode_->Wait<handoff::Cancel>().key.request, id);
}

TEST_F(RouterServiceTest, ALostNodeIsDialedAgainAndTheRequestGoesOn) {
  StartService();
  WaitReady();
  auto sink = std::make_shared<Sink>();
  ASSERT_TRUE(Submit(sink).ok());
  const handoff::PlacementKey first = PlayPrefill();
  SendTokens(first, 0, {TokenId(5), TokenId(6)});
  sink->WaitTokens(2);
  strand_.Run([&] { decode_->Leave(); });
  const auto again = prefill_->Wait<handoff::Prefill>();
  EXPECT_GT(again.attempt, first.attempt);
  EXPECT_EQ(again.first_position, Position(2));
  EXPECT_EQ(again.tokens->size(), 22u) << "prompt and what was sent";
  const handoff::PlacementKey key{again.request, again.attempt, handoff::Placement(1)};
  strand_.Run([&] {
    prefill_->Send(handoff::Accepted{again.request, again.attempt});
    prefill_->Send(handoff::Placed{key, "d0"});
  });
  prefill_->Wait<handoff::PlacementNoted>();
  SendTokens(key, 2, {TokenId(7)}, sequence::FinishReason::kStop);
  EXPECT_TRUE(sink->WaitEnd().status.ok());
  EXPECT_EQ(sink->tokens(), (TokenIds{TokenId(5), TokenId(6), TokenId(7)}));
}

TEST_F(RouterServiceTest, ANodeOfTheWrongRoleIsRefused) {
  strand_.Run([&] { std::swap(prefill_, decode_); });
  StartService();
  std::string health;
  while (health.find("is configured as a prefill node and is a decode node") == std::string::npos) {
    strand_.Run([&] { health = service_->HealthJson(); });
  }
  strand_.Run([&] { EXPECT_FALSE(service_->ready()); });
}

TEST_F(RouterServiceTest, AnotherModelIsRefused) {
  strand_.Run([&] { decode_->hello_.model_instance.bytes[0] = 2; });
  StartService();
  std::string health;
  while (health.find("start it with the same model file") == std::string::npos) {
    strand_.Run([&] { health = service_->HealthJson(); });
  }
}

TEST_F(RouterServiceTest, OfTwoNodesWithOneNameTheLaterIsRefused) {
  strand_.Run([&] { twin_ = std::make_unique<FakeNode>(io_, strand_, Role::kDecode, "d0", 13); });
  StartService({twin_->address()});
  std::string health;
  while (health.find("has the name 'd0' too") == std::string::npos) {
    strand_.Run([&] { health = service_->HealthJson(); });
  }
}

TEST_F(RouterServiceTest, StopWaitsForWhatRunsThenCancelsIt) {
  StartService();
  WaitReady();
  auto sink = std::make_shared<Sink>();
  ASSERT_TRUE(Submit(sink).ok());
  PlayPrefill();
  std::promise<void> stopped;
  strand_.Run([&] {
    service_->Stop(std::chrono::hours(1), [&] { stopped.set_value(); });
    service_->CancelAll();
  });
  stopped.get_future().wait();
  EXPECT_EQ(sink->WaitEnd().status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Submit(std::make_shared<Sink>()).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(RouterServiceTest, AnOperatorSeesAndDrainsNodes) {
  StartService();
  WaitReady();
  strand_.Run([&] {
    const auto nodes = service_->NodeStatuses();
    ASSERT_EQ(nodes.size(), 2u);
    EXPECT_EQ(nodes[0].name, "p0");
    EXPECT_EQ(nodes[0].state, "up");
    EXPECT_EQ(nodes[0].usable_pairs, 1);
    EXPECT_EQ(nodes[1].total_blocks, 64);
    EXPECT_EQ(service_->DrainNode("d1", std::chrono::seconds(9)).code(),
              absl::StatusCode::kNotFound);
    EXPECT_TRUE(service_->DrainNode("d0", std::chrono::seconds(9)).ok());
    EXPECT_EQ(service_->NodeStatuses()[1].state, "draining");
    EXPECT_FALSE(service_->ready());
  });
  EXPECT_EQ(decode_->Wait<handoff::Drain>().budget, std::chrono::seconds(9));
  strand_.Run([&] { decode_->End(); });
  std::string state;
  while (state != "drained" && state != "lost") {
    strand_.Run([&] { state = service_->NodeStatuses()[1].state; });
  }
  strand_.Run([&] {
    EXPECT_EQ(service_->DrainNode("d0", std::chrono::seconds(9)).code(),
              absl::StatusCode::kFailedPrecondition);
  });
}

TEST_F(RouterServiceTest, MetricsShowTheNodesBooks) {
  strand_.Run([&] { decode_->heartbeat_.metrics = {{"leases", 3}}; });
  StartService();
  std::string text;
  while (text.find("tandem_node_leases{node=\"d0\"} 3\n") == std::string::npos) {
    strand_.Run([&] { text = service_->MetricsText(); });
  }
  EXPECT_NE(text.find("tandem_node_queued{node=\"p0\"} 0\n"), std::string::npos);
  EXPECT_NE(text.find("tandem_router_requests 0\n"), std::string::npos);
}

}  // namespace
}  // namespace tandem::router
