#include "router/core/waiting_room.h"

#include <gtest/gtest.h>

namespace tandem::router {
namespace {

Time At(std::int64_t ms) { return Time{} + std::chrono::milliseconds(ms); }
const handoff::RequestId kRequest{handoff::Incarnation(7), 3};

TEST(WaitingRoomTest, TheOldestComesFirstWhetherTriedBeforeOrNot) {
  WaitingRoom room;
  room.AddNew(4);
  room.AddRetry(2, At(0), At(0));
  room.AddNew(1);
  EXPECT_EQ(room.Next(true), 1u);
  room.Remove(1);
  EXPECT_EQ(room.Next(true), 2u);
  EXPECT_EQ(room.Next(false), 4u) << "retries have to wait, new requests have not";
  room.Remove(4);
  EXPECT_EQ(room.Next(false), std::nullopt);
  EXPECT_EQ(room.size(), 1u);
}

TEST(WaitingRoomTest, ABackOffEndsInTime) {
  WaitingRoom room;
  room.AddRetry(2, At(0), At(100));
  EXPECT_EQ(room.Next(true), std::nullopt);
  EXPECT_EQ(room.NextDeadline(), At(100));
  room.OnTime(At(99));
  EXPECT_EQ(room.Next(true), std::nullopt);
  room.OnTime(At(100));
  EXPECT_EQ(room.Next(true), 2u);
  EXPECT_EQ(room.NextDeadline(), kNever);
}

TEST(WaitingRoomTest, OneThatEndedWhileItRestedLeavesNothing) {
  WaitingRoom room;
  room.AddRetry(2, At(0), At(100));
  room.Remove(2);
  EXPECT_EQ(room.size(), 0u);
  EXPECT_EQ(room.NextDeadline(), kNever);
}

TEST(BackOffTest, DoublesAndIsTheSameInEveryRun) {
  for (std::int32_t failures = 1; failures <= 4; ++failures) {
    const Duration whole = std::chrono::milliseconds(100) * (1 << (failures - 1));
    const Duration pause = BackOff(kRequest, handoff::Attempt(2), failures);
    EXPECT_GE(pause, whole / 2);
    EXPECT_LE(pause, whole);
    EXPECT_EQ(pause, BackOff(kRequest, handoff::Attempt(2), failures));
  }
}

TEST(BackOffTest, RequestsThatFailTogetherComeBackApart) {
  std::set<Duration> pauses;
  for (std::uint64_t number = 1; number <= 20; ++number) {
    pauses.insert(BackOff({handoff::Incarnation(7), number}, handoff::Attempt(1), 1));
  }
  EXPECT_EQ(pauses.size(), 20u);
}

TEST(RetriesAtOnceTest, AFifthOfTheRequests) {
  EXPECT_EQ(RetriesAtOnce(0), kRetriesAtOnceMin);
  EXPECT_EQ(RetriesAtOnce(500), 100);
}

}  // namespace
}  // namespace tandem::router
