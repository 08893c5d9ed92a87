#include "common/ops/share.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "tests/unit/common/ops/ops_testing.h"

namespace tandem::ops {
namespace {

TEST(ShareTest, TheOnlyThreadGetsEverythingAtOnce) {
  for (std::int64_t units : {0, 1, 7}) {
    Split one(1);
    for (const Share share : {Share{}, Share{&one, 0}}) {
      std::vector<Range> got;
      share.ForEach(units, [&](Range some) { got.push_back(some); });
      ASSERT_EQ(got.size(), units == 0 ? 0u : 1u);
      for (Range some : got) EXPECT_TRUE(some.begin == 0 && some.end == units);
    }
  }
}

TEST(ShareTest, WhoFinishesFirstTakesFromTheOthers) {
  Split split(3);
  std::vector<int> owner(100, -1);
  const auto take = [&](int index, Claims& claims) {
    Range some{};
    if (!claims.Next(&some)) return false;
    for (std::int64_t unit = some.begin; unit < some.end; ++unit) {
      EXPECT_EQ(owner[unit], -1) << unit;
      owner[unit] = index;
    }
    return true;
  };
  Claims first({&split, 0}, 100), second({&split, 1}, 100), third({&split, 2}, 100);
  EXPECT_TRUE(take(1, second));
  EXPECT_EQ(owner[33], 1);  // a third each
  while (take(0, first)) {
  }
  for (std::int64_t unit = 0; unit < 100; ++unit) EXPECT_NE(owner[unit], -1) << unit;
  EXPECT_EQ(owner[99], 0);  // the third had not come: its part was there for the taking
  EXPECT_FALSE(take(1, second));
  EXPECT_FALSE(take(2, third));
}

// The second thread computes the last it took of one work while the first is through the next, and
// the one after it.
TEST(ShareTest, AThreadMayBeBehindByWholeWorks) {
  Split split(2);
  const auto drain = [](Claims& claims) {
    std::int64_t got = 0;
    for (Range some; claims.Next(&some);) got += some.end - some.begin;
    return got;
  };
  Claims late({&split, 1}, 2);
  Range some{};
  ASSERT_TRUE(late.Next(&some));
  Claims first({&split, 0}, 2);
  EXPECT_EQ(drain(first), 1);
  for (std::int64_t units : {std::int64_t{1}, std::int64_t{10}, std::int64_t{10}}) {
    Claims early({&split, 0}, units);
    EXPECT_EQ(drain(early), units);
  }
  EXPECT_EQ(drain(late), 0);
  for (std::int64_t units : {1, 10, 10}) {
    Claims behind({&split, 1}, units);
    EXPECT_EQ(drain(behind), 0);
  }
}

TEST(ShareTest, EveryUnitIsComputedOnceWhateverTheThreads) {
  for (int threads : {2, 3, 8}) {
    ThreadPool& pool = PoolOf(threads);
    Split split(threads);
    constexpr std::int64_t kSizes[] = {0, 1, 2, 5, 31, 64, 1000};
    std::vector<std::vector<std::atomic<int>>> times;
    for (std::int64_t size : kSizes) times.emplace_back(static_cast<std::size_t>(size));
    constexpr int kRounds = 200;
    pool.Run([&](int index, int) {
      const Share share{&split, index};
      for (int round = 0; round < kRounds; ++round) {
        for (auto& of_size : times) {
          share.ForEach(static_cast<std::int64_t>(of_size.size()), [&](Range some) {
            for (std::int64_t unit = some.begin; unit < some.end; ++unit) ++of_size[unit];
          });
          // A barrier after some of them: others follow one another at each thread's own pace.
          if (of_size.size() % 2 == 1) pool.Barrier();
        }
      }
    });
    for (const auto& of_size : times) {
      for (const std::atomic<int>& count : of_size) ASSERT_EQ(count, kRounds) << threads;
    }
  }
}

// The numbers of works begin anew after 65,536.
TEST(ShareTest, WorkIsCountedRoundAndRound) {
  Split split(2);
  for (int work = 0; work < 70000; ++work) {
    std::int64_t got = 0;
    Claims first({&split, 0}, 3), second({&split, 1}, 3);
    Range some{};
    while (first.Next(&some)) got += some.end - some.begin;
    while (second.Next(&some)) got += some.end - some.begin;
    ASSERT_EQ(got, 3) << work;
  }
}

}  // namespace
}  // namespace tandem::ops
