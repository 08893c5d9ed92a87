#include "common/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace tandem {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, RunCallsEveryThreadOnceAndReturnsAfterAll) {
  ThreadPool pool(GetParam());
  std::vector<int> calls(GetParam());
  for (int run = 1; run <= 500; ++run) {
    pool.Run([&](int index, int count) {
      ASSERT_EQ(count, GetParam());
      ++calls[index];
    });
    for (int count : calls) ASSERT_EQ(count, run);
  }
}

TEST_P(ThreadPoolTest, BarrierShowsWhatEveryThreadWroteBefore) {
  ThreadPool pool(GetParam());
  constexpr int kSteps = 2000;
  std::vector<int> values(GetParam());  // plain memory: the barrier alone orders it
  std::vector<int> wrong(GetParam());
  pool.Run([&](int index, int count) {
    for (int step = 0; step < kSteps; ++step) {
      values[index] = step;
      pool.Barrier();
      for (int i = 0; i < count; ++i) wrong[index] += values[i] != step;
      pool.Barrier();
    }
  });
  for (int count : wrong) EXPECT_EQ(count, 0);
}

TEST_P(ThreadPoolTest, AnIdlePoolStopsAtOnce) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(GetParam());
}

TEST_P(ThreadPoolTest, SleepersWakeWhenAThreadIsLate) {
  ThreadPool pool(GetParam());
  std::int64_t sum = 0;
  for (int run = 0; run < 5; ++run) {
    pool.Run([&](int index, int) {
      if (index == 0) {  // far longer than the waiters spin
        std::atomic<int> work{0};
        while (work.fetch_add(1) < 500'000) {
        }
        sum += run;
      }
      pool.Barrier();
      EXPECT_EQ(sum, run * (run + 1) / 2);
      pool.Barrier();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

}  // namespace
}  // namespace tandem
