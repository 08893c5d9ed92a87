#include "common/kv/prefix_cache.h"

#include <gtest/gtest.h>

#include <list>

#include "common/base/random.h"

namespace tandem::kv {
namespace {

Hash128 H(std::uint8_t n) {
  Hash128 hash;
  hash.bytes[0] = n;
  return hash;
}
std::vector<BlockId> Take(PrefixCache& cache, int count) {
  std::vector<BlockId> out;
  EXPECT_TRUE(cache.Allocate(BlockCount(count), out).ok());
  return out;
}

TEST(PrefixCache, AHitIsPinnedAndSurvivesPressure) {
  PrefixCache cache(BlockCount(3));
  auto a = Take(cache, 2);
  ASSERT_TRUE(cache.Insert(H(1), a[0]));
  ASSERT_TRUE(cache.Insert(H(2), a[1]));
  cache.Unref(a);
  EXPECT_EQ(cache.counts().cached, BlockCount(2));

  std::vector<BlockId> hit;
  const std::vector<Hash128> hashes = {H(1), H(9)};
  cache.Match(hashes, BlockCount(5), hit);
  EXPECT_EQ(hit, std::vector<BlockId>{a[0]});
  auto b = Take(cache, 2);  // evicts H(2), not H(1)
  EXPECT_EQ(cache.Holds(hashes), BlockCount(1));
  std::vector<BlockId> none;
  EXPECT_FALSE(cache.Allocate(BlockCount(1), none).ok());
}

TEST(PrefixCache, EvictsTheEndOfAPrefixBeforeItsBeginning) {
  PrefixCache cache(BlockCount(3));
  auto a = Take(cache, 3);
  for (int i = 0; i < 3; ++i) cache.Insert(H(static_cast<std::uint8_t>(i)), a[i]);
  cache.Unref(a);
  auto b = Take(cache, 1);
  EXPECT_EQ(b[0], a[2]);
}

TEST(PrefixCache, ASecondBlockOfAKnownHashIsNotFindable) {
  PrefixCache cache(BlockCount(2));
  auto a = Take(cache, 2);
  EXPECT_TRUE(cache.Insert(H(1), a[0]));
  EXPECT_FALSE(cache.Insert(H(1), a[1]));
  cache.Unref(a);
  EXPECT_EQ(cache.counts().cached, BlockCount(1));
  EXPECT_EQ(cache.counts().free, BlockCount(1));
}

TEST(PrefixCache, TellsChangesInOrderAndInParts) {
  PrefixCache cache(BlockCount(2));
  auto a = Take(cache, 2);
  cache.Insert(H(1), a[0]);
  cache.Insert(H(2), a[1]);
  cache.Unref(a);
  Take(cache, 1);
  std::vector<Hash128> added, removed;
  std::uint64_t next = cache.Changes(0, 2, added, removed);
  EXPECT_EQ(added, (std::vector<Hash128>{H(1), H(2)}));
  EXPECT_TRUE(removed.empty());
  next = cache.Changes(next, 2, added, removed);
  EXPECT_EQ(removed, (std::vector<Hash128>{H(2)}));
  EXPECT_EQ(cache.Changes(next, 2, added, removed), next);
}

// Against lists: prefixes of chains in [0, 6), each chain of up to 4 blocks.
TEST(PrefixCache, MatchesATrivialModelUnderRandomOperations) {
  const std::uint64_t seed = 11;
  SCOPED_TRACE(seed);
  SplitMix64 random(seed);
  PrefixCache cache(BlockCount(12));
  struct Holder {
    std::vector<BlockId> blocks;
    std::vector<Hash128> hashes;
  };
  std::list<Holder> holders;
  std::map<Hash128, BlockId> known;  // findable
  std::list<BlockId> idle;           // unreferenced, oldest first
  std::map<BlockId, int> refs;
  auto evict = [&](std::size_t need) {
    while (12 - refs.size() - idle.size() < need) {
      BlockId victim = idle.front();
      idle.pop_front();
      std::erase_if(known, [&](auto& entry) { return entry.second == victim; });
    }
  };
  for (int step = 0; step < 20000; ++step) {
    if (random.Below(2) == 0) {
      Holder holder;
      const auto chain = static_cast<std::uint8_t>(random.Below(6) * 10);
      const std::size_t length = 1 + random.Below(4);
      for (std::size_t i = 0; i < length; ++i) {
        holder.hashes.push_back(H(static_cast<std::uint8_t>(chain + i)));
      }
      std::size_t held = 0;
      while (held < length && known.contains(holder.hashes[held])) ++held;
      cache.Match(holder.hashes, BlockCount(100), holder.blocks);
      ASSERT_EQ(holder.blocks.size(), held);
      for (std::size_t i = 0; i < held; ++i) {
        ASSERT_EQ(holder.blocks[i], known[holder.hashes[i]]);
        ++refs[holder.blocks[i]];
        idle.remove(holder.blocks[i]);
      }
      const bool fits = length - held <= 12 - refs.size();
      std::vector<BlockId> more;
      ASSERT_EQ(cache.Allocate(BlockCount(static_cast<int>(length - held)), more).ok(), fits);
      if (fits) {
        evict(length - held);
        for (BlockId b : more) {
          ASSERT_FALSE(refs.contains(b));
          refs[b] = 1;
          holder.blocks.push_back(b);
        }
        for (std::size_t i = held; i < length; ++i) {
          const bool is_new = known.try_emplace(holder.hashes[i], holder.blocks[i]).second;
          ASSERT_EQ(cache.Insert(holder.hashes[i], holder.blocks[i]), is_new);
        }
      }
      holders.push_back(std::move(holder));
    } else if (!holders.empty()) {
      auto it = std::next(holders.begin(), static_cast<long>(random.Below(holders.size())));
      cache.Unref(it->blocks);
      for (auto b = it->blocks.rbegin(); b != it->blocks.rend(); ++b) {
        if (--refs[*b] > 0) continue;
        refs.erase(*b);
        for (auto& [hash, block] : known) {
          if (block == *b) idle.push_back(block);
        }
      }
      holders.erase(it);
    }
    ASSERT_EQ(cache.counts().used.value(), static_cast<int>(refs.size())) << step;
    ASSERT_EQ(cache.counts().cached.value(), static_cast<int>(idle.size())) << step;
    ASSERT_EQ(cache.size(), known.size()) << step;
  }
}

}  // namespace
}  // namespace tandem::kv
