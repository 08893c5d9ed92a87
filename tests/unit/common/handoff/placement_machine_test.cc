#include "common/handoff/placement_machine.h"

#include <gtest/gtest.h>

#include "common/base/random.h"
#include "common/handoff/deadline_queue.h"
#include "common/handoff/events.h"
#include "common/handoff/reservation_machine.h"

namespace tandem::handoff {
namespace {

using PState = PlacementMachine::State;
using RState = ReservationMachine::State;

const PlacementKey kKey{{Incarnation(9), 1}, Attempt(1), Placement(1)};
Time At(std::int64_t ms) { return Time{} + std::chrono::milliseconds(ms); }

Reserved Answer(std::int32_t blocks, std::int32_t held) {
  Reserved m;
  m.key = kKey;
  for (std::int32_t i = 0; i < blocks; ++i) m.blocks.push_back(kv::BlockId(i));
  m.held = kv::BlockCount(held);
  m.lease = kLease;
  return m;
}

TEST(Placement, FencesWhenEveryLayerOfEveryBlockIs) {
  PlacementMachine p(kKey, NodeId(1), 2, 3, At(0));
  ASSERT_TRUE(p.OnReserved(At(1), Answer(4, 1)));
  EXPECT_FALSE(p.Next(kv::Layer(0), 1).has_value());  // held
  auto range = p.Next(kv::Layer(0), 2);
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->first, 1);
  p.OnPosted(At(2), 7, *range, ByteCount(10));
  EXPECT_FALSE(p.Next(kv::Layer(0), 2).has_value());
  p.OnPosted(At(2), 8, *p.Next(kv::Layer(0), 3), ByteCount(10));
  p.OnPosted(At(3), 9, *p.Next(kv::Layer(1), 9), ByteCount(20));  // never beyond the last block
  EXPECT_EQ(p.outstanding_bytes(), ByteCount(40));
  EXPECT_TRUE(p.OnFenced(At(5), 7, ByteCount(10)).has_value());
  EXPECT_FALSE(p.OnFenced(At(5), 7, ByteCount(10)).has_value());
  p.OnFenced(At(6), 8, ByteCount(10));
  EXPECT_EQ(p.state(), PState::kPushing);
  p.OnFenced(At(8), 9, ByteCount(20));
  EXPECT_EQ(p.state(), PState::kFenced);
  EXPECT_EQ(p.fenced_layer_blocks(), 4);
  EXPECT_EQ(p.transfer_time(), std::chrono::milliseconds(6));
}

TEST(Placement, EverythingHeldNeedsNoWrite) {
  PlacementMachine p(kKey, NodeId(1), 2, 3, At(0));
  ASSERT_TRUE(p.OnReserved(At(1), Answer(4, 3)));
  EXPECT_EQ(p.state(), PState::kFenced);
}

TEST(Placement, MalformedAnswersAreRefused) {
  for (const Reserved& bad : {Answer(2, 0), Answer(4, 4), Answer(4, -1)}) {
    PlacementMachine p(kKey, NodeId(1), 2, 3, At(0));
    EXPECT_FALSE(p.OnReserved(At(1), bad));
    EXPECT_EQ(p.state(), PState::kReserving);
  }
}

TEST(Placement, DrainsUntilNoWriteIsOutstanding) {
  PlacementMachine p(kKey, NodeId(1), 1, 2, At(0));
  p.OnReserved(At(1), Answer(2, 0));
  p.OnPosted(At(1), 1, *p.Next(kv::Layer(0), 1), ByteCount(1));
  p.OnPosted(At(1), 2, *p.Next(kv::Layer(0), 2), ByteCount(1));
  p.Drop(At(2));
  EXPECT_EQ(p.state(), PState::kDraining);
  EXPECT_FALSE(p.Next(kv::Layer(0), 2).has_value());
  p.OnFenced(At(3), 1, ByteCount(1));
  EXPECT_EQ(p.state(), PState::kDraining);
  p.OnFenced(At(4), 2, ByteCount(1));
  EXPECT_EQ(p.state(), PState::kReleased);
}

TEST(Placement, TheLeaseCountsFromWhatWasSent) {
  PlacementMachine p(kKey, NodeId(1), 1, 1, At(0));
  p.OnReserved(At(400), Answer(1, 0));
  EXPECT_EQ(p.stop_at(), At(4900));
  p.OnRenewSent(At(1000));
  p.OnRenewSent(At(2000));  // the answer may be to the first
  p.OnRenewed();
  EXPECT_EQ(p.stop_at(), At(5900));
  p.OnRenewed();
  EXPECT_EQ(p.stop_at(), At(5900));
}

TEST(DeadlineQueue, ARenewedLeaseHidesNoneBehindIt) {
  DeadlineQueue<int> queue;
  queue.Set(1, At(10));
  queue.Set(2, At(20));
  queue.Set(1, At(30));
  EXPECT_EQ(queue.Pop(At(25)), 2);
  EXPECT_EQ(queue.Pop(At(25)), std::nullopt);
  EXPECT_EQ(queue.next(), At(30));
  queue.Remove(1);
  EXPECT_EQ(queue.next(), kNever);
}

TEST(DeadlineQueue, MatchesASortedListUnderRandomRenewals) {
  const std::uint64_t seed = 5;
  SCOPED_TRACE(seed);
  SplitMix64 random(seed);
  DeadlineQueue<int> queue;
  std::map<int, Time> model;
  for (int step = 0; step < 20000; ++step) {
    const int key = static_cast<int>(random.Below(30));
    if (random.Below(4) > 0) {
      const Time at = At(step + static_cast<std::int64_t>(random.Below(100)));
      queue.Set(key, at);
      model[key] = at;
    } else if (random.Below(2) == 0) {
      queue.Remove(key);
      model.erase(key);
    }
    while (auto due = queue.Pop(At(step))) {
      ASSERT_TRUE(model.contains(*due) && model[*due] <= At(step));
      for (auto& [other, at] : model) ASSERT_GE(at, model[*due]);
      model.erase(*due);
    }
    for (auto& [other, at] : model) ASSERT_GT(at, At(step));
    ASSERT_EQ(queue.size(), model.size());
  }
}

// --- the sink's side: 2 layers, 40 tokens in 3 blocks, the first held

ReservationMachine MakeReservation(Proof proof) {
  ReservationMachine::Options options;
  options.key = kKey;
  options.proof = proof;
  options.num_layers = 2;
  options.kv_tokens = 40;
  options.kv_blocks = 3;
  options.held = 1;
  options.block_bytes = ByteCount(100);
  return ReservationMachine(options);
}
LayerDone Done(std::int32_t layer, std::int32_t first, std::int32_t count) {
  LayerDone m;
  m.key = kKey;
  m.first_layer = kv::Layer(layer);
  m.first_block = first;
  m.num_blocks = count;
  m.num_tokens = count * 16;
  m.bytes = ByteCount(100 * count);
  return m;
}
HandOff TheHandOff() {
  HandOff m;
  m.key = kKey;
  m.prompt_tokens = TokenCount(40);
  m.tokens = std::make_shared<TokenIds>(TokenIds(41, TokenId(1)));
  m.params.max_tokens = TokenCount(5);
  m.total_bytes = ByteCount(400);
  m.total_layer_blocks = 4;
  return m;
}

TEST(Reservation, JoinsOnlyWhenEveryLayerWasVerified) {
  ReservationMachine r = MakeReservation(Proof::kWriter);
  const LayerDone a = Done(0, 1, 2), b = Done(1, 1, 1), c = Done(1, 2, 1);
  for (const LayerDone& done : {a, b, c}) {
    EXPECT_EQ(r.OnLayerDone(done), ReservationMachine::Announced::kVerify);
  }
  r.OnVerified(a);
  r.OnVerified(c);
  EXPECT_EQ(r.OnHandOff(TheHandOff()), ReservationMachine::Join::kWait);
  EXPECT_FALSE(r.TakeReadyHandOff().has_value());
  r.OnVerified(b);
  EXPECT_TRUE(r.TakeReadyHandOff().has_value());
  EXPECT_EQ(r.state(), RState::kJoined);
  EXPECT_EQ(r.OnHandOff(TheHandOff()), ReservationMachine::Join::kRepeat);
}

TEST(Reservation, GapsOverlapsAndWrongCountsAreCorrupt) {
  LayerDone bytes = Done(0, 1, 1), layer = Done(2, 1, 1), far = Done(0, 1, 9);
  bytes.bytes = ByteCount(99);
  for (const LayerDone& bad : {Done(0, 2, 1), Done(0, 0, 1), bytes, layer, far}) {
    ReservationMachine r = MakeReservation(Proof::kWriter);
    EXPECT_EQ(r.OnLayerDone(bad), ReservationMachine::Announced::kCorrupt);
  }
  ReservationMachine r = MakeReservation(Proof::kWriter);
  r.OnLayerDone(Done(0, 1, 1));
  EXPECT_EQ(r.OnLayerDone(Done(0, 1, 1)), ReservationMachine::Announced::kCorrupt);
}

TEST(Reservation, AHandOffWhoseTotalsDoNotFitIsRejected) {
  HandOff bytes = TheHandOff(), tokens = TheHandOff(), none = TheHandOff(), last = TheHandOff();
  bytes.total_bytes = ByteCount(500);
  tokens.tokens = std::make_shared<TokenIds>(TokenIds(40, TokenId(1)));
  none.tokens = nullptr;
  last.params.max_tokens = TokenCount(1);
  for (const HandOff& bad : {bytes, tokens, none, last}) {
    ReservationMachine r = MakeReservation(Proof::kWriter);
    EXPECT_EQ(r.OnHandOff(bad), ReservationMachine::Join::kReject);
  }
}

TEST(Reservation, OnlyTheTransportsOwnProofEndsQuarantine) {
  ReservationMachine memory = MakeReservation(Proof::kWriter);
  memory.Quarantine();
  EXPECT_FALSE(memory.OnSinkDrained());
  EXPECT_EQ(memory.state(), RState::kQuarantined);
  EXPECT_TRUE(memory.OnReleased());
  EXPECT_EQ(memory.state(), RState::kFree);

  ReservationMachine gone = MakeReservation(Proof::kWriter);
  gone.Quarantine();
  EXPECT_TRUE(gone.OnWriterGone());

  ReservationMachine messages = MakeReservation(Proof::kReceives);
  messages.Quarantine();
  EXPECT_FALSE(messages.OnReleased());
  EXPECT_FALSE(messages.OnWriterGone());
  EXPECT_TRUE(messages.OnSinkDrained());
}

}  // namespace
}  // namespace tandem::handoff
