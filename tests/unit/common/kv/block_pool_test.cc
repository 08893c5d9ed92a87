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

// A pool and a trivial model of it: the state of each block. Each operation is done to both.
class ModelledPool {
 public:
  explicit ModelledPool(std::uint64_t seed) : random_(seed) {}

  void Step() {
    switch (random_.Below(7)) {
      case 0:
        return Allocate(1 + static_cast<int>(random_.Below(6)));
      case 1:
        return Ref();
      case 2:
      case 3:
        return Unref();
      case 4:
        return Retain();
      case 5:
        return Drop();
      case 6:
        Quarantine();
        if (random_.Below(2) == 0) EndQuarantine();
    }
  }
  BlockCounts Expected() const {
    BlockCounts want;
    want.total = BlockCount(kBlocks);
    for (const State& s : states_) {
      ++(s.quarantined ? want.quarantined
         : s.refs > 0  ? want.used
         : s.retained  ? want.cached
                       : want.free);
    }
    return want;
  }
  BlockCounts counts() const { return pool_.counts(); }

 private:
  static constexpr int kBlocks = 40;
  struct State {
    int refs = 0;
    bool retained = false;
    bool quarantined = false;
    bool free() const { return refs == 0 && !retained && !quarantined; }
  };

  // Does `what(block, state)` to one of the blocks that fit, if there are any.
  template <typename Fits, typename What>
  void ToOne(Fits fits, What what) {
    std::vector<int> those;
    for (int i = 0; i < kBlocks; ++i) {
      if (fits(At(i))) those.push_back(i);
    }
    if (those.empty()) return;
    const int i = those[random_.Below(those.size())];
    what(BlockId(i), At(i));
  }
  State& At(int i) { return states_[static_cast<std::size_t>(i)]; }

  void Allocate(int want) {
    const auto free =
        std::count_if(states_.begin(), states_.end(), [](auto& s) { return s.free(); });
    std::vector<BlockId> out;
    ASSERT_EQ(pool_.Allocate(BlockCount(want), out).ok(), want <= free);
    for (BlockId block : out) {
      ASSERT_TRUE(At(block.value()).free());
      At(block.value()).refs = 1;
    }
  }
  void Ref() {
    ToOne([](auto& s) { return s.refs > 0 || s.retained; },
          [this](BlockId block, State& s) {
            pool_.Ref(block);
            ++s.refs;
          });
  }
  void Unref() {
    ToOne([](auto& s) { return s.refs > 0; },
          [this](BlockId block, State& s) {
            --s.refs;
            EXPECT_EQ(pool_.Unref(block), s.refs == 0 && s.retained);
          });
  }
  void Retain() {
    ToOne([](auto& s) { return s.refs > 0 && !s.retained; },
          [this](BlockId block, State& s) {
            pool_.Retain(block);
            s.retained = true;
          });
  }
  void Drop() {
    ToOne([](auto& s) { return s.retained; },
          [this](BlockId block, State& s) {
            pool_.Drop(block);
            s.retained = false;
          });
  }
  void Quarantine() {
    ToOne([](auto& s) { return s.refs == 1 && !s.retained; },
          [this](BlockId block, State& s) {
            pool_.Quarantine(block);
            s = {.refs = 0, .retained = false, .quarantined = true};
          });
  }
  void EndQuarantine() {
    ToOne([](auto& s) { return s.quarantined; },
          [this](BlockId block, State& s) {
            pool_.EndQuarantine(block);
            s.quarantined = false;
          });
  }

  SplitMix64 random_;
  BlockPool pool_{BlockCount(kBlocks)};
  std::vector<State> states_ = std::vector<State>(kBlocks);
};

TEST(BlockPool, MatchesATrivialModelUnderRandomOperations) {
  const std::uint64_t seed = 7;
  SCOPED_TRACE(seed);
  ModelledPool both(seed);
  for (int step = 0; step < 20000; ++step) {
    both.Step();
    ASSERT_EQ(both.counts(), both.Expected()) << "step " << step;
  }
}

}  // namespace
}  // namespace tandem::kv
