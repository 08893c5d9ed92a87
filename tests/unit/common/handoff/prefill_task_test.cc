#include "common/handoff/prefill_task.h"

#include <gtest/gtest.h>

namespace tandem::handoff {
namespace {

using State = PrefillTask::State;
using sequence::FinishReason;

constexpr NodeId kRouter{1};
Time At(std::int64_t ms) { return Time{} + std::chrono::milliseconds(ms); }

// Attempt 2 of a request: 20 tokens of a prompt and 3 that are out; max_tokens 10.
Prefill Message() {
  Prefill m;
  m.request = {Incarnation(9), 1};
  m.attempt = Attempt(2);
  m.tokens = std::make_shared<TokenIds>(TokenIds(23, TokenId(1)));
  m.prompt_tokens = TokenCount(20);
  m.first_position = Position(3);
  m.params.max_tokens = TokenCount(10);
  m.params.stop_token_ids = {TokenId(99)};
  m.ranked_sinks = {"d1", "d2"};
  m.budget = std::chrono::seconds(1);
  return m;
}

PrefillTask Computed(const Prefill& message, TokenId token) {
  PrefillTask task(message, kRouter, At(0));
  task.StartComputing(At(5), TokenCount(16));
  task.Advance(TokenCount(7));
  task.OnFirstToken(At(9), token, -1);
  return task;
}

bool Any(const std::string&) { return true; }

TEST(PrefillTask, PassesItsStatesInOrder) {
  PrefillTask task(Message(), kRouter, At(0));
  EXPECT_EQ(task.state(), State::kQueued);
  EXPECT_EQ(task.deadline(), At(1000));
  task.StartComputing(At(5), TokenCount(16));
  EXPECT_EQ(task.state(), State::kComputing);
  EXPECT_EQ(task.left(), TokenCount(7));
  task.Advance(TokenCount(3));
  task.Advance(TokenCount(4));
  EXPECT_EQ(task.state(), State::kComputing);
  task.OnFirstToken(At(9), TokenId(7), -1);
  EXPECT_EQ(task.state(), State::kComputed);
  EXPECT_EQ(task.first_token(), TokenId(7));
  EXPECT_EQ(task.finish(), FinishReason::kNone);
  EXPECT_EQ(task.times.queued, std::chrono::milliseconds(5));
  EXPECT_EQ(task.times.prefill, std::chrono::milliseconds(4));
  EXPECT_EQ(task.times.cached_tokens, TokenCount(16));
  EXPECT_EQ(task.times.computed_tokens, TokenCount(7));
  task.Finish();
  EXPECT_EQ(task.state(), State::kDone);
}

TEST(PrefillTask, AStopTokenEndsItAtOnce) {
  const PrefillTask task = Computed(Message(), TokenId(99));
  EXPECT_EQ(task.state(), State::kDone);
  EXPECT_EQ(task.finish(), FinishReason::kStop);
}

TEST(PrefillTask, TokenLimitReachedExactlyAtTheHandOffMovesNothing) {
  Prefill message = Message();
  message.params.max_tokens = TokenCount(4);  // position 3 is the last
  const PrefillTask last = Computed(message, TokenId(7));
  EXPECT_FALSE(last.moves());
  EXPECT_EQ(last.state(), State::kDone);
  EXPECT_EQ(last.finish(), FinishReason::kLength);
  message.params.max_tokens = TokenCount(5);
  EXPECT_TRUE(Computed(message, TokenId(7)).moves());
}

TEST(PrefillTask, SinksAreTriedInTheirRankingOnceEach) {
  PrefillTask task(Message(), kRouter, At(0));
  EXPECT_EQ(task.NextSink(Any), 0u);
  EXPECT_EQ(task.NextSink([](const std::string& name) { return name == "d2"; }), 1u);
  EXPECT_EQ(task.Place(0), (PlacementKey{{Incarnation(9), 1}, Attempt(2), Placement(1)}));
  EXPECT_EQ(task.NextSink(Any), 1u);
  EXPECT_EQ(task.Place(1).placement, Placement(2));
  EXPECT_EQ(task.NextSink(Any), std::nullopt);
}

TEST(PrefillTask, AFullSinkMayBeAskedAgainUnderANewNumberAndIsNotCounted) {
  PrefillTask task(Message(), kRouter, At(0));
  for (std::uint32_t i = 1; i <= 10; ++i) {
    ASSERT_EQ(task.NextSink(Any), 0u);
    EXPECT_EQ(task.Place(0).placement, Placement(i));
    task.OnFull(0);
    EXPECT_EQ(task.placements(), 0u);
  }
}

TEST(PrefillTask, ThreePlacementsAnAttempt) {
  Prefill message = Message();
  message.ranked_sinks = {"d1", "d2", "d3", "d4"};
  PrefillTask task(message, kRouter, At(0));
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(task.NextSink(Any), i);
    task.Place(i);
  }
  EXPECT_EQ(task.NextSink(Any), std::nullopt);
}

TEST(PrefillTask, SaysWhyItsLastPlacementEndedBadly) {
  PrefillTask task(Message(), kRouter, At(0));
  EXPECT_EQ(task.failure(), Reason::kNoSink);
  task.OnPlacementFailed(Reason::kCorrupt);
  EXPECT_EQ(task.failure(), Reason::kCorrupt);
}

TEST(PrefillTask, WithoutABudgetThereIsNoDeadline) {
  Prefill message = Message();
  message.budget = Duration(0);
  EXPECT_EQ(PrefillTask(message, kRouter, At(7)).deadline(), kNever);
}

TEST(PrefillTask, MessagesThatMakeNoSenseAreRefused) {
  EXPECT_EQ(PrefillTask::Check(Message()), Reason::kNone);
  void (*const spoils[])(Prefill&) = {
      +[](Prefill& m) { m.tokens = nullptr; },
      +[](Prefill& m) { m.tokens = std::make_shared<TokenIds>(); },
      +[](Prefill& m) { m.attempt = Attempt(0); },
      +[](Prefill& m) { m.first_position = Position(-1); },
      +[](Prefill& m) { m.first_position = Position(10); },
      +[](Prefill& m) { m.prompt_tokens = TokenCount(19); },
      +[](Prefill& m) { m.params.max_tokens = TokenCount(0); },
  };
  for (auto spoil : spoils) {
    Prefill message = Message();
    spoil(message);
    EXPECT_EQ(PrefillTask::Check(message), Reason::kInternal);
  }
}

}  // namespace
}  // namespace tandem::handoff
