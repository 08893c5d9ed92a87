#include "common/model/leaf_hasher.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "common/base/random.h"

namespace tandem::model {
namespace {

// As many leaves as are hashed at once, more than are worth it, and fewer: each is the hash of its
// rows in our order.
TEST(LeafHasherTest, EachLeafIsTheHashOfItsRows) {
  constexpr std::int64_t kRows = 7;
  for (const std::int64_t k : {std::int64_t{96}, std::int64_t{2016}}) {
    for (const std::size_t count : {std::size_t{16}, std::size_t{11}, std::size_t{2}}) {
      ops::WeightSource plain{.type = ops::WeightType::kQ4_1, .n = 8 * kRows, .k = k};
      SplitMix64 random(count);
      std::vector<std::byte> bytes(static_cast<std::size_t>(plain.n * plain.row_bytes()));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Below(256));
      plain.bytes = bytes;
      ops::WeightSource interleaved = plain;
      interleaved.interleaved = 2 * kRows;
      const std::vector<ops::WeightSource> sources = {plain, interleaved};
      std::vector<Leaf> leaves;
      for (std::size_t i = 0; i < 16; ++i) {
        leaves.push_back({i % 2, static_cast<std::int64_t>(i / 2) * kRows, kRows});
      }
      std::vector<std::size_t> chosen(count);
      std::iota(chosen.begin(), chosen.end(), 16 - count);
      std::vector<Hash128> hashes(leaves.size());
      LeafHasher().Hash(sources, leaves, chosen, hashes);
      for (const std::size_t i : chosen) {
        Sha256 expected;
        for (std::int64_t row = 0; row < kRows; ++row) {
          const ops::WeightSource& source = sources[leaves[i].part];
          expected.Update({source.row(leaves[i].first_row + row),
                           static_cast<std::size_t>(source.row_bytes())});
        }
        EXPECT_EQ(hashes[i], expected.Finish128())
            << k << " columns, leaf " << i << " of " << count;
      }
    }
  }
}

}  // namespace
}  // namespace tandem::model
