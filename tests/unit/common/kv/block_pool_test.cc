#include "common/kv/block_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "common/base/random.h"

namespace tandem::kv {
namespace {

std::vector<BlockId> Take(BlockPool& pool, int count) {
  std::vector<BlockId> out;
  EXPECT_TRUE(pool.Allocate(BlockCount(count), out).ok());
  return out;
}

TEST(BlockPool, AllocateTakesAllOrNone) {
  BlockPool pool(BlockCount(4));
  auto a = Take(pool, 3);
  std::vector<BlockId> more;
  Status status = pool.Allocate(BlockCount(2), more);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "need 2 KV blocks, 1 free");
  EXPECT_TRUE(more.empty());
  EXPECT_EQ(pool.counts().free, BlockCount(1));
}

TEST(BlockPool, PrefersTheShortestRunThatFits) {
  BlockPool pool(BlockCount(10));
  auto all = Take(pool, 10);
  for (int i : {1, 2, 3, 6, 7}) pool.Unref(BlockId(i));  // runs of 3 and 2
  EXPECT_EQ(Take(pool, 2), (std::vector<BlockId>{BlockId(6), BlockId(7)}));
  EXPECT_EQ(Take(pool, 3), (std::vector<BlockId>{BlockId(1), BlockId(2), BlockId(3)}));
}

TEST(BlockPool, JoinsFreedNeighboursIntoOneRun) {
  BlockPool pool(BlockCount(6));
  auto all = Take(pool, 6);
  for (int i : {4, 2, 3}) pool.Unref(BlockId(i));
  EXPECT_EQ(Take(pool, 3), (std::vector<BlockId>{BlockId(2), BlockId(3), BlockId(4)}));
}

TEST(BlockPool, QuarantinedBlocksAreNotHandedOut) {
  BlockPool pool(BlockCount(2));
  auto a = Take(pool, 2);
  pool.Quarantine(a[0]);
  pool.Unref(a[1]);
  std::vector<BlockId> out;
  EXPECT_FALSE(pool.Allocate(BlockCount(2), out).ok());
  EXPECT_EQ(pool.counts().quarantined, BlockCount(1));
  pool.EndQuarantine(a[0]);
  EXPECT_TRUE(pool.Allocate(BlockCount(2), out).ok());
}

TEST(BlockPoolDeath, MisuseIsABrokenInvariant) {
  BlockPool pool(BlockCount(2));
  auto a = Take(pool, 1);
  EXPECT_DEATH(pool.Unref(BlockId(1)), "broken invariant");
  EXPECT_DEATH(pool.Ref(BlockId(-1)), "broken invariant");
  pool.Ref(a[0]);
  EXPECT_DEATH(pool.Quarantine(a[0]), "broken invariant");
}

// Against a map of block → state.
TEST(BlockPool, MatchesATrivialModelUnderRandomOperations) {
  const std::uint64_t seed = 7;
  SCOPED_TRACE(seed);
  SplitMix64 random(seed);
  constexpr int kBlocks = 40;
  BlockPool pool{BlockCount(kBlocks)};
  struct Model {
    int refs = 0;
    bool retained = false;
    bool quarantined = false;
  };
  std::vector<Model> model(kBlocks);
  auto pick = [&](auto&& predicate) {
    std::vector<int> fits;
    for (int i = 0; i < kBlocks; ++i) {
      if (predicate(model[i])) fits.push_back(i);
    }
    return fits.empty() ? -1 : fits[random.Below(fits.size())];
  };
  for (int step = 0; step < 20000; ++step) {
    int i = -1;
    switch (random.Below(7)) {
      case 0: {
        const int want = 1 + static_cast<int>(random.Below(6));
        const int free = static_cast<int>(std::count_if(model.begin(), model.end(), [](auto& m) {
          return m.refs == 0 && !m.retained && !m.quarantined;
        }));
        std::vector<BlockId> out;
        ASSERT_EQ(pool.Allocate(BlockCount(want), out).ok(), want <= free);
        for (BlockId b : out) {
          Model& m = model[static_cast<std::size_t>(b.value())];
          ASSERT_TRUE(m.refs == 0 && !m.retained && !m.quarantined);
          m.refs = 1;
        }
        break;
      }
      case 1:
        if ((i = pick([](auto& m) { return m.refs > 0 || m.retained; })) >= 0) {
          pool.Ref(BlockId(i));
          ++model[i].refs;
        }
        break;
      case 2:
      case 3:
        if ((i = pick([](auto& m) { return m.refs > 0; })) >= 0) {
          --model[i].refs;
          ASSERT_EQ(pool.Unref(BlockId(i)), model[i].refs == 0 && model[i].retained);
        }
        break;
      case 4:
        if ((i = pick([](auto& m) { return m.refs > 0 && !m.retained; })) >= 0) {
          pool.Retain(BlockId(i));
          model[i].retained = true;
        }
        break;
      case 5:
        if ((i = pick([](auto& m) { return m.retained; })) >= 0) {
          pool.Drop(BlockId(i));
          model[i].retained = false;
        }
        break;
      case 6:
        if ((i = pick([](auto& m) { return m.refs == 1 && !m.retained; })) >= 0) {
          pool.Quarantine(BlockId(i));
          model[i] = {.refs = 0, .retained = false, .quarantined = true};
        }
        if ((i = pick([](auto& m) { return m.quarantined; })) >= 0 && random.Below(2) == 0) {
          pool.EndQuarantine(BlockId(i));
          model[i].quarantined = false;
        }
        break;
    }
    BlockCounts want;
    want.total = BlockCount(kBlocks);
    for (const Model& m : model) {
      ++(m.quarantined ? want.quarantined
         : m.refs > 0  ? want.used
         : m.retained  ? want.cached
                       : want.free);
    }
    ASSERT_EQ(pool.counts(), want) << "step " << step;
  }
}

}  // namespace
}  // namespace tandem::kv
