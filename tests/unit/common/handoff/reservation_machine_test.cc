#include "common/handoff/reservation_machine.h"

#include <gtest/gtest.h>

namespace tandem::handoff {
namespace {

using RState = ReservationMachine::State;

const PlacementKey kKey{{Incarnation(9), 1}, Attempt(1), Placement(1)};

// 2 layers, 40 tokens in 3 blocks, the first held.
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

TEST(Reservation, NothingLeavesQuarantineButByItsProof) {
  ReservationMachine r = MakeReservation(Proof::kWriter);
  r.OnLayerDone(Done(0, 1, 2));
  r.OnHandOff(TheHandOff());
  EXPECT_TRUE(r.waiting());
  r.Quarantine();
  EXPECT_FALSE(r.waiting());
  EXPECT_EQ(r.OnLayerDone(Done(1, 1, 2)), ReservationMachine::Announced::kStale);
  EXPECT_EQ(r.OnHandOff(TheHandOff()), ReservationMachine::Join::kReject);
  EXPECT_FALSE(r.TakeReadyHandOff().has_value());
  EXPECT_EQ(r.state(), RState::kQuarantined);
}

TEST(Reservation, AWriterThatIsGoneFreesNothingBeforeQuarantine) {
  ReservationMachine r = MakeReservation(Proof::kWriter);
  EXPECT_FALSE(r.OnWriterGone());
  EXPECT_EQ(r.state(), RState::kReserved);
}

TEST(Reservation, ReleaseOfAJoinedOneChangesNothing) {
  ReservationMachine r = MakeReservation(Proof::kWriter);
  for (const LayerDone& done : {Done(0, 1, 2), Done(1, 1, 2)}) {
    r.OnLayerDone(done);
    r.OnVerified(done);
  }
  ASSERT_EQ(r.OnHandOff(TheHandOff()), ReservationMachine::Join::kJoin);
  EXPECT_FALSE(r.OnReleased());
  EXPECT_FALSE(r.OnSinkDrained());
  EXPECT_EQ(r.state(), RState::kJoined);
  r.EndSequence();
  EXPECT_EQ(r.state(), RState::kFree);
}

}  // namespace
}  // namespace tandem::handoff
