#include "common/handoff/placement_machine.h"

#include <gtest/gtest.h>

#include "common/handoff/events.h"

namespace tandem::handoff {
namespace {

using PState = PlacementMachine::State;

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

}  // namespace
}  // namespace tandem::handoff
