#include "common/handoff/deadline_queue.h"

#include <gtest/gtest.h>

#include <map>

#include "common/base/random.h"

namespace tandem::handoff {
namespace {

Time At(std::int64_t ms) { return Time{} + std::chrono::milliseconds(ms); }

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

}  // namespace
}  // namespace tandem::handoff
