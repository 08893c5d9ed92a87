#include "common/ops/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/unit/common/ops/attention_testing.h"

namespace tandem::ops {
namespace {

constexpr Case kCases[] = {
    {9, 3, 64, 16, 0},   {7, 1, 48, 16, 0},          {4, 4, 80, 16, 0},
    {14, 2, 128, 32, 0}, {2, 1, 256, 8, 0, false},   {6, 2, 8, 16, 0},
    {3, 1, 20, 16, 0},   {9, 3, 64, 16, 70, false},  {2, 2, 64, 16, 1},
    {4, 2, 64, 16, 64},  {80, 1, 16, 16, 33, false}, {3, 3, 64, 16, 4096},
    {64, 8, 96, 16, 50}, {270, 1, 8, 16, 100},       {5, 5, 128, 48, 130, false},
};

TEST(AttentionTest, EveryShapeAndClassIsCloseToTheExactResult) {
  constexpr std::int64_t kLength = 150;
  for (NumericsClass numerics : Classes()) {
    for (const Case& shape : kCases) {
      SCOPED_TRACE(fmt::format("{} {}/{}x{} window {}", Name(numerics), shape.heads, shape.kv_heads,
                               shape.head_dim, shape.window));
      const KvType type = KvTypeOf(numerics);
      const OpsContext context = MakeContext(numerics, 2, 64, shape.head_dim);
      Arena arena(shape, type, 64);
      const Sequence sequence = MakeSequence(shape, kLength, 1, 77);
      std::vector<std::vector<float>> outs(1);
      Step(context, shape, arena.kv(), {&sequence}, {0, kLength}, 2, outs);
      for (std::int64_t row : {0, 1, 63, 64, 65, 127, 128, 149}) {
        for (std::int64_t head : {std::int64_t{0}, shape.heads - 1}) {
          const std::vector<double> exact = Exact(shape, type, sequence, row, head);
          const float* out = outs[0].data() + (row * shape.heads + head) * shape.head_dim;
          for (std::int64_t i = 0; i < shape.head_dim; ++i) {
            ASSERT_NEAR(out[i], exact[i], Bound(numerics, shape))
                << "row " << row << " head " << head << " " << i;
          }
        }
      }
    }
  }
}

TEST(AttentionTest, ARowAndItsKvAreTheSameInAnyBatchChunkingAndThreadCount) {
  constexpr std::int64_t kLength = 139;
  for (NumericsClass numerics : Classes()) {
    for (const Case& shape : kCases) {
      SCOPED_TRACE(fmt::format("{} {}/{}x{} window {}", Name(numerics), shape.heads, shape.kv_heads,
                               shape.head_dim, shape.window));
      const KvType type = KvTypeOf(numerics);
      const OpsContext context = MakeContext(numerics, 3, 64, shape.head_dim);
      const Sequence a = MakeSequence(shape, kLength, 0, 1);
      const Sequence b = MakeSequence(shape, kLength, 30, 2);
      Arena whole(shape, type, 64);
      std::vector<std::vector<float>> expected(1);
      Step(context, shape, whole.kv(), {&a}, {0, kLength}, 1, expected);
      const bool large = shape.heads * shape.head_dim > 2048;  // to save time: one chunking
      for (std::int64_t chunk : {1, 7, 64}) {
        if (large && chunk != 7) continue;
        for (int threads : {2}) {
          Arena arena(shape, type, 64);
          std::vector<std::vector<float>> outs(2);
          for (std::int64_t begin = 0; begin < kLength; begin += chunk) {
            const Range rows{begin, std::min(begin + chunk, kLength)};
            Step(context, shape, arena.kv(), {&b, &a}, rows, threads, outs);
          }
          ASSERT_EQ(outs[1], expected[0]) << "chunk " << chunk << " threads " << threads;
          const std::size_t of_a =
              a.table.size() * static_cast<std::size_t>(whole.kv().block_bytes());
          ASSERT_EQ(std::memcmp(arena.bytes().data(), whole.bytes().data(), of_a), 0);
        }
      }
    }
  }
}

TEST(AttentionTest, SlotsThatARowDoesNotSeeNeverReachItsResult) {
  constexpr Case kShape{6, 2, 64, 16, 40};
  constexpr std::int64_t kLength = 100;
  for (NumericsClass numerics : Classes()) {
    SCOPED_TRACE(Name(numerics));
    const OpsContext context = MakeContext(numerics, 1, 64);
    const Sequence sequence = MakeSequence(kShape, kLength, 0, 5);
    Arena clean(kShape, KvTypeOf(numerics), 8);
    Arena dirty(kShape, KvTypeOf(numerics), 8);
    std::fill(dirty.bytes().begin(), dirty.bytes().end(), std::byte{0xff});  // NaN everywhere
    std::vector<std::vector<float>> expected(1), outs(1);
    Step(context, kShape, clean.kv(), {&sequence}, {0, kLength}, 1, expected);
    Step(context, kShape, dirty.kv(), {&sequence}, {0, kLength}, 1, outs);
    EXPECT_EQ(outs[0], expected[0]);
  }
}

TEST(AttentionTest, AnyNumberOfRowsAndHeadsIsCloseToTheExactResult) {
  for (NumericsClass numerics : Classes()) {
    const KvType type = KvTypeOf(numerics);
    std::int64_t rows = 1;  // 1 to 33 in turn
    for (std::int64_t head_dim : {64, 80, 96, 128}) {
      for (std::int64_t group = 1; group <= 8; ++group, rows = rows % 33 + 1) {
        const std::int64_t kv_heads = group == 8 ? 8 : 1;
        const Case shape{group * kv_heads,        kv_heads,     head_dim, 16,
                         group % 3 == 2 ? 67 : 0, rows % 2 == 0};
        SCOPED_TRACE(fmt::format("{} {}/{}x{} rows {}", Name(numerics), shape.heads, kv_heads,
                                 head_dim, rows));
        const OpsContext context = MakeContext(numerics, 2, 64, head_dim);
        const std::int64_t before = 40 + rows * 3;
        const Sequence sequence = MakeSequence(shape, before + rows, 0, 7);
        Arena arena(shape, type, 16);
        std::vector<std::vector<float>> outs(1);
        Step(context, shape, arena.kv(), {&sequence}, {0, before}, 2, outs);
        outs[0].clear();
        Step(context, shape, arena.kv(), {&sequence}, {before, before + rows}, 2, outs);
        for (std::int64_t row : {std::int64_t{0}, rows / 2, rows - 1}) {
          const std::int64_t head = row % shape.heads;
          const std::vector<double> exact = Exact(shape, type, sequence, before + row, head);
          const float* out = outs[0].data() + (row * shape.heads + head) * head_dim;
          for (std::int64_t i = 0; i < head_dim; ++i) {
            ASSERT_NEAR(out[i], exact[i], Bound(numerics, shape)) << "row " << row << " dim " << i;
          }
        }
      }
    }
  }
}

// Scores far apart, so that maxima move late, and values that are denormal or near the largest.
TEST(AttentionTest, ARowOfExtremeValuesIsTheSameInAnyChunking) {
  constexpr Case kShape{6, 2, 64, 16, 90};
  constexpr std::int64_t kLength = 200;
  for (NumericsClass numerics : Classes()) {
    const OpsContext context = MakeContext(numerics, 2, 64);
    for (float magnitude : {1e-41f, 1e-38f, 1e-20f, 1e37f}) {
      SCOPED_TRACE(fmt::format("{} {}", Name(numerics), magnitude));
      Sequence sequence = MakeSequence(kShape, kLength, 0, 3);
      for (float& q : sequence.q) q *= 20;
      for (float& v : sequence.v) v *= magnitude;
      Arena whole(kShape, KvTypeOf(numerics), 16);
      std::vector<std::vector<float>> expected(1);
      Step(context, kShape, whole.kv(), {&sequence}, {0, kLength}, 2, expected);
      for (std::int64_t chunk : {1, 50}) {
        Arena arena(kShape, KvTypeOf(numerics), 16);
        std::vector<std::vector<float>> outs(1);
        for (std::int64_t begin = 0; begin < kLength; begin += chunk) {
          Step(context, kShape, arena.kv(), {&sequence}, {begin, begin + chunk}, 2, outs);
        }
        ASSERT_EQ(std::memcmp(outs[0].data(), expected[0].data(), outs[0].size() * sizeof(float)),
                  0)
            << "chunk " << chunk;
      }
      if (magnitude < 1e-20f) continue;
      const std::vector<double> exact = Exact(kShape, KvTypeOf(numerics), sequence, 170, 4);
      for (std::int64_t i = 0; i < kShape.head_dim; ++i) {
        ASSERT_NEAR(expected[0][(170 * kShape.heads + 4) * kShape.head_dim + i] / magnitude,
                    exact[i] / magnitude, 20 * Bound(numerics, kShape));
      }
    }
  }
}

TEST(AttentionTest, AnInfiniteValueReachesOnlyTheRowsThatSeeIt) {
  constexpr Case kShape{6, 2, 64, 16, 40};
  constexpr std::int64_t kLength = 130, kAt = 70, kDim = 5;
  for (NumericsClass numerics : Classes()) {
    SCOPED_TRACE(Name(numerics));
    const OpsContext context = MakeContext(numerics, 2, 64);
    Sequence sequence = MakeSequence(kShape, kLength, 0, 11);
    Arena clean(kShape, KvTypeOf(numerics), 16), infinite(kShape, KvTypeOf(numerics), 16);
    std::vector<std::vector<float>> expected(1), outs(1);
    Step(context, kShape, clean.kv(), {&sequence}, {0, kLength}, 2, expected);
    sequence.v[kAt * kShape.kv_heads * kShape.head_dim + kDim] = INFINITY;  // of KV head 0
    Step(context, kShape, infinite.kv(), {&sequence}, {0, kLength}, 2, outs);
    for (std::int64_t row = 0; row < kLength; ++row) {
      const bool sees = row >= kAt && row < kAt + kShape.window;
      for (std::int64_t head = 0; head < kShape.heads; ++head) {
        const std::int64_t at = (row * kShape.heads + head) * kShape.head_dim;
        for (std::int64_t i = 0; i < kShape.head_dim; ++i) {
          if (sees && head < 3 && i == kDim) {
            ASSERT_FALSE(std::isfinite(outs[0][at + i])) << row;
          } else {
            ASSERT_EQ(outs[0][at + i], expected[0][at + i]) << row << " " << head << " " << i;
          }
        }
      }
    }
  }
}

// AMX reads whole rows of 16 keys in place and copies others.
TEST(AttentionTest, TheBlockSizeDoesNotChangeABit) {
  constexpr std::int64_t kLength = 150;
  for (NumericsClass numerics : Classes()) {
    SCOPED_TRACE(Name(numerics));
    const OpsContext context = MakeContext(numerics, 2, 64);
    std::vector<std::vector<float>> expected(1);
    for (std::int64_t block_size : {16, 8, 24, 64}) {
      const Case shape{6, 2, 64, block_size, 100};
      Arena arena(shape, KvTypeOf(numerics), 32);
      const Sequence sequence = MakeSequence(shape, kLength, 0, 13);
      std::vector<std::vector<float>> outs(1);
      Step(context, shape, arena.kv(), {&sequence}, {0, kLength}, 2, outs);
      if (block_size == 16) expected = outs;
      ASSERT_EQ(outs, expected) << block_size;
    }
  }
}

// One thread with this much to do takes as many rows a call as the class can.
TEST(AttentionTest, AmxRowsAreTheSameInCallsOfManyRowsAndOfOne) {
  const std::vector<NumericsClass> classes = Classes();
  if (std::find(classes.begin(), classes.end(), NumericsClass::kAmx) == classes.end()) {
    GTEST_SKIP() << "this processor lacks AMX: " << DetectCpuFeatures().ToString();
  }
  constexpr std::int64_t kLength = 700;
  for (const bool precise : {false, true}) {
    const Case shape{6, 2, 64, 16, 0, precise};
    const OpsContext context = MakeContext(NumericsClass::kAmx, 1, 64);
    const Sequence sequence = MakeSequence(shape, kLength, 0, 17);
    Arena arena(shape, KvType::kBf16, 64);
    std::vector<std::vector<float>> expected(1), outs(1);
    Step(context, shape, arena.kv(), {&sequence}, {0, kLength}, 1, expected);
    for (std::int64_t row = 0; row < kLength; row += row < kLength - 100 ? 20 : 1) {
      outs[0].clear();
      Step(context, shape, arena.kv(), {&sequence}, {row, row + 1}, 1, outs);
      const std::int64_t floats = shape.heads * shape.head_dim;
      ASSERT_EQ(std::memcmp(outs[0].data(), expected[0].data() + row * floats, floats * 4), 0)
          << row << (precise ? " precise" : "");
    }
  }
}

// The last tokens of sequences whose lengths lie around the edges of chunks, blocks and tiles.
std::vector<std::vector<float>> StepOfLastTokens(const OpsContext& context, const Case& shape,
                                                 const PagedKv& kv,
                                                 const std::vector<Sequence>& sequences,
                                                 const std::vector<std::int64_t>& lengths,
                                                 std::int64_t tokens) {
  const std::int64_t q_row = shape.heads * shape.head_dim;
  std::vector<float> q;
  std::vector<KvSlice> slices;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const std::int64_t count = std::min(tokens, lengths[i]);
    slices.push_back({.first_row = static_cast<std::int64_t>(q.size()) / q_row,
                      .num_rows = count,
                      .first_position = lengths[i] - count,
                      .block_table = sequences[i].table.data()});
    q.insert(q.end(), sequences[i].q.end() - count * q_row, sequences[i].q.end());
  }
  std::vector<float> out(q.size());
  Split split(2);
  PoolOf(2).Run([&](int index, int) {
    Attention(context, kv, slices, ArgsOf(shape, q, out), Share{&split, index});
  });
  std::vector<std::vector<float>> outs;
  for (const KvSlice& slice : slices) {
    const auto first = out.begin() + slice.first_row * q_row;
    outs.emplace_back(first, first + slice.num_rows * q_row);
  }
  return outs;
}

TEST(AttentionTest, AStepOfManySequencesGivesEachTheBytesOfItsPrompt) {
  const std::vector<std::int64_t> lengths = {1, 129, 16, 17, 63, 64, 65, 128, 2, 190};
  for (NumericsClass numerics : Classes()) {
    for (std::int64_t head_dim : {32, 64, 80, 96, 128}) {
      for (std::int64_t group = 1; group <= 8; ++group) {
        if (numerics != NumericsClass::kAmx && group != 3) continue;  // to save time
        const Case shape{2 * group, 2, head_dim, 16, group % 3 == 2 ? 67 : 0, group % 2 == 0};
        SCOPED_TRACE(fmt::format("{} {}x{}", Name(numerics), shape.heads, head_dim));
        const OpsContext context = MakeContext(numerics, 2, 64, head_dim);
        Arena arena(shape, KvTypeOf(numerics), 60);
        std::vector<Sequence> sequences;
        std::vector<std::vector<float>> whole(lengths.size());
        std::int32_t block = 0;
        for (std::size_t i = 0; i < lengths.size(); ++i) {
          sequences.push_back(MakeSequence(shape, lengths[i], block, 19 + i));
          block += static_cast<std::int32_t>(sequences.back().table.size());
          std::vector<std::vector<float>> outs(1);
          Step(context, shape, arena.kv(), {&sequences.back()}, {0, lengths[i]}, 2, outs);
          whole[i] = outs[0];
        }
        for (std::int64_t tokens : {1, 2}) {
          const std::vector<std::vector<float>> outs =
              StepOfLastTokens(context, shape, arena.kv(), sequences, lengths, tokens);
          for (std::size_t i = 0; i < lengths.size(); ++i) {
            const std::vector<float> expected(
                whole[i].end() - static_cast<std::ptrdiff_t>(outs[i].size()), whole[i].end());
            ASSERT_EQ(outs[i], expected) << "length " << lengths[i] << " tokens " << tokens;
          }
        }
      }
    }
  }
}

TEST(KvAppendTest, RoundsToNearestEvenAndKeepsSpecialValuesInEveryClass) {
  constexpr std::int64_t kDim = 27;  // whole vectors and a rest
  constexpr Case kShape{1, 1, kDim, 16, 0};
  const std::vector<std::uint32_t> in = {0x3f800000, 0x3f808000, 0x3f818000, 0x3f808001,
                                         0x80000000, 0x7f800000, 0x7f800001, 0x00000001,
                                         0x00018000, 0xff812345};
  const std::vector<std::uint16_t> expected = {0x3f80, 0x3f80, 0x3f82, 0x3f81, 0x8000,
                                               0x7f80, 0x7fc0, 0x0000, 0x0002, 0xffc1};
  for (NumericsClass numerics : Classes()) {
    if (KvTypeOf(numerics) != KvType::kBf16) continue;
    SCOPED_TRACE(Name(numerics));
    const OpsContext context = MakeContext(numerics, 1, 64);
    Arena arena(kShape, KvType::kBf16, 1);
    std::vector<float> row(kDim);
    for (std::size_t i = 0; i < row.size(); ++i) std::memcpy(&row[i], &in[i % in.size()], 4);
    const std::int32_t table[] = {0};
    const KvSlice slice{.first_row = 0, .num_rows = 1, .first_position = 3, .block_table = table};
    KvAppend(context, arena.kv(), {&slice, 1},
             {.k = row.data(), .v = row.data(), .k_stride = kDim, .v_stride = kDim}, {0, 1});
    for (const std::int64_t slot : {3, 16 + 3}) {
      for (std::int64_t i = 0; i < kDim; ++i) {
        std::uint16_t stored;
        std::memcpy(&stored, arena.bytes().data() + (slot * kDim + i) * 2, 2);
        EXPECT_EQ(stored, expected[static_cast<std::size_t>(i) % in.size()]) << i;
      }
      EXPECT_EQ(arena.bytes()[static_cast<std::size_t>((slot + 1) * kDim * 2)], std::byte{0});
      EXPECT_EQ(arena.bytes()[static_cast<std::size_t>(slot * kDim * 2 - 1)], std::byte{0});
    }
  }
}

}  // namespace
}  // namespace tandem::ops
