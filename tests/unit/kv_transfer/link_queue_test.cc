#include "kv_transfer/link_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem::transfer {
namespace {

constexpr RegionId kRegion{1};
const Ticket kA{1, 0, 0};
const Ticket kB{2, 0, 0};

class LinkQueueTest : public ::testing::Test {
 protected:
  static std::vector<RegionDescriptor> Regions() { return {{kRegion, ByteCount(1 << 20), {}}}; }
  Status Put(const Ticket& ticket, std::vector<Write> writes) { return queue_.Put(ticket, writes); }
  LinkQueue::Popped Pop(std::uint64_t bytes = 1 << 20, std::size_t writes = 100) {
    return queue_.Pop({.bytes = bytes, .writes = writes}, item_);
  }
  LinkQueue queue_{{1 << 20, 10}, Regions()};
  LinkQueue::Item item_;
};

TEST_F(LinkQueueTest, MergesNeighboursThatContinueOnBothSides) {
  ASSERT_TRUE(
      Put(kA, {{0, kRegion, 100, 10}, {10, kRegion, 110, 10}, {20, kRegion, 130, 10}}).ok());
  ASSERT_EQ(Pop(), LinkQueue::Popped::kWrites);
  ASSERT_EQ(item_.writes.size(), 2u);
  EXPECT_EQ(item_.writes[0].length, 20u);
  EXPECT_EQ(item_.bytes, 30u);
  EXPECT_EQ(Pop(), LinkQueue::Popped::kNothing);
}

TEST_F(LinkQueueTest, CutsWhatIsLongerThanTheBudget) {
  ASSERT_TRUE(Put(kA, {{0, kRegion, 1000, 250}}).ok());
  std::uint64_t moved = 0;
  for (std::uint64_t expected : {100u, 100u, 50u}) {
    ASSERT_EQ(Pop(100), LinkQueue::Popped::kWrites);
    ASSERT_EQ(item_.writes.size(), 1u);
    EXPECT_EQ(item_.writes[0].length, expected);
    EXPECT_EQ(item_.writes[0].source_offset, moved);
    EXPECT_EQ(item_.writes[0].sink_offset, 1000 + moved);
    moved += expected;
  }
  EXPECT_EQ(queue_.stats().queued.value(), 0);
}

TEST_F(LinkQueueTest, GathersOneTicketUpToItsFence) {
  ASSERT_TRUE(Put(kA, {{0, kRegion, 0, 10}}).ok());
  ASSERT_TRUE(Put(kA, {{50, kRegion, 20, 10}}).ok());
  ASSERT_TRUE(queue_.Fence(kA, Cookie(7)).ok());
  ASSERT_TRUE(Put(kA, {{0, kRegion, 0, 10}}).ok());
  ASSERT_TRUE(Put(kB, {{0, kRegion, 0, 10}}).ok());
  ASSERT_EQ(Pop(), LinkQueue::Popped::kWrites);
  EXPECT_EQ(item_.writes.size(), 2u);
  ASSERT_EQ(Pop(), LinkQueue::Popped::kFence);
  EXPECT_EQ(item_.cookie, Cookie(7));
  ASSERT_EQ(Pop(), LinkQueue::Popped::kWrites);
  EXPECT_EQ(item_.ticket, kA);
  EXPECT_EQ(item_.writes.size(), 1u);
  ASSERT_EQ(Pop(), LinkQueue::Popped::kWrites);
  EXPECT_EQ(item_.ticket, kB);
}

TEST_F(LinkQueueTest, AbortDropsWritesAndFencesOfItsTicketOnly) {
  ASSERT_TRUE(Put(kA, {{0, kRegion, 0, 10}, {20, kRegion, 40, 10}}).ok());
  ASSERT_TRUE(queue_.Fence(kA, Cookie(1)).ok());
  ASSERT_TRUE(Put(kB, {{0, kRegion, 0, 10}}).ok());
  ASSERT_EQ(Pop(1 << 20, 1), LinkQueue::Popped::kWrites);  // a part of A is out
  EXPECT_TRUE(queue_.Abort(kA));
  EXPECT_EQ(queue_.stats().queued.value(), 10);
  std::vector<Ticket> aborts;
  queue_.TakeAborts(aborts);
  EXPECT_EQ(aborts, std::vector<Ticket>{kA});
  ASSERT_EQ(Pop(), LinkQueue::Popped::kWrites);
  EXPECT_EQ(item_.ticket, kB);
  EXPECT_EQ(Pop(), LinkQueue::Popped::kNothing);
  // Its room is free again.
  std::vector<Write> ten;
  for (std::uint64_t i = 0; i < 10; ++i) ten.push_back({i * 30, kRegion, i * 20, 10});
  EXPECT_TRUE(Put(kB, ten).ok());
  EXPECT_EQ(Put(kB, {{0, kRegion, 0, 1}}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(queue_.Fence(kB, Cookie(2)).ok()) << "a full queue can still be fenced";
}

TEST_F(LinkQueueTest, FencesAreBoundedToo) {
  Status last;
  int accepted = 0;
  while (accepted < 1000 && (last = queue_.Fence(kA, Cookie(0))).ok()) ++accepted;
  EXPECT_EQ(last.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(accepted, 20);
}

TEST_F(LinkQueueTest, AfterFailNothingIsTakenAndAbortSaysSo) {
  ASSERT_TRUE(Put(kA, {{0, kRegion, 0, 10}}).ok());
  queue_.Fail(Unavailable("gone"));
  EXPECT_EQ(Put(kA, {{0, kRegion, 0, 10}}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(queue_.Fence(kA, Cookie(1)).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(queue_.Abort(kA));
  EXPECT_EQ(Pop(), LinkQueue::Popped::kNothing);
  EXPECT_EQ(queue_.stats().queued.value(), 0);
}

TEST_F(LinkQueueTest, EmptyWritesAreNothing) {
  ASSERT_TRUE(Put(kA, {{0, kRegion, 0, 0}}).ok());
  ASSERT_TRUE(Put(kA, {}).ok());
  EXPECT_EQ(Pop(), LinkQueue::Popped::kNothing);
}

}  // namespace
}  // namespace tandem::transfer
