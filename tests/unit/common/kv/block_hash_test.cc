#include "common/kv/block_hash.h"

#include <gtest/gtest.h>

#include "common/kv/layout_map.h"
#include "common/kv/span.h"

namespace tandem::kv {
namespace {

TokenIds Iota(int count) {
  TokenIds tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(TokenId(i));
  return tokens;
}

TEST(BlockHash, OneHashPerFullGranuleAndExtendingEqualsHashingWhole) {
  const Hash128 root = MakeRoot({.numerics = "a"});
  const TokenIds tokens = Iota(50);
  auto whole = HashChain(root, tokens);
  ASSERT_EQ(whole.size(), 3u);
  auto part = HashChain(root, std::span(tokens).first(20));
  ASSERT_EQ(part.size(), 1u);
  ExtendChain(root, tokens, part);
  EXPECT_EQ(part, whole);
}

TEST(BlockHash, EveryPartOfTheRootAndEveryTokenCounts) {
  HashRoot base{.numerics = "a", .layout = {.num_layers = 1, .num_kv_heads = 1, .head_dim = 1}};
  HashRoot numerics = base, salt = base, layout = base, model = base;
  numerics.numerics = "b";
  salt.salt = "b";
  layout.layout.dtype = KvDtype::kBf16;
  model.model_instance.bytes[3] = 1;
  std::vector<Hash128> roots;
  for (const HashRoot* r : {&base, &numerics, &salt, &layout, &model})
    roots.push_back(MakeRoot(*r));
  std::sort(roots.begin(), roots.end());
  EXPECT_EQ(std::unique(roots.begin(), roots.end()), roots.end());

  TokenIds tokens = Iota(32);
  auto before = HashChain(roots[0], tokens);
  tokens[3] = TokenId(99);
  auto after = HashChain(roots[0], tokens);
  EXPECT_NE(before[0], after[0]);
  EXPECT_NE(before[1], after[1]);  // chained
}

TEST(BlockHash, BlocksOfSeveralGranulesTakeTheLastOne) {
  auto chain = HashChain(Hash128{}, Iota(80));
  EXPECT_EQ(BlockHashes(chain, 32), (std::vector<Hash128>{chain[1], chain[3]}));
  EXPECT_TRUE(BlockHashes(chain, 8).empty());
}

TEST(Spans, MergeNeighboursOnBothSidesOnly) {
  auto b = [](std::initializer_list<int> ids) {
    std::vector<BlockId> out;
    for (int id : ids) out.push_back(BlockId(id));
    return out;
  };
  EXPECT_EQ(MergeSpans(b({1, 2, 3, 7}), b({5, 6, 8, 9})),
            (std::vector<CopySpan>{{BlockId(1), BlockId(5), BlockCount(2)},
                                   {BlockId(3), BlockId(8), BlockCount(1)},
                                   {BlockId(7), BlockId(9), BlockCount(1)}}));
  EXPECT_EQ(MergeRuns(b({4, 5, 3})),
            (std::vector<BlockRun>{{BlockId(4), BlockCount(2)}, {BlockId(3), BlockCount(1)}}));
}

TEST(LayoutMap, MapsEqualLayoutsAndNamesWhatDiffers) {
  KvLayout layout{.num_layers = 2, .num_kv_heads = 2, .head_dim = 4, .block_size = 16};
  auto map = LayoutMap::Make(layout, layout);
  ASSERT_TRUE(map.ok());
  std::vector<BytePiece> pieces;
  const std::vector<CopySpan> spans = {{BlockId(1), BlockId(3), BlockCount(2)}};
  map->Pieces(Layer(1), spans, BlockCount(10), BlockCount(20), pieces);
  const std::int64_t block = layout.block_bytes().value();
  EXPECT_EQ(pieces, (std::vector<BytePiece>{
                        {ByteCount(11 * block), ByteCount(23 * block), ByteCount(2 * block)}}));
  KvLayout other = layout;
  other.head_dim = 8;
  auto refused = LayoutMap::Make(layout, other);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.status().ToString().find("head_dim is 4"), std::string::npos);
}

}  // namespace
}  // namespace tandem::kv
