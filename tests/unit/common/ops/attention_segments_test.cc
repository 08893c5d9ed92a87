// Sequences over more than one segment of keys.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "common/ops/attention.h"
#include "tests/unit/common/ops/attention_testing.h"

namespace tandem::ops {
namespace {

constexpr std::int64_t kLength = 2 * kKeySegment + 130;

constexpr Case kShapes[] = {
    {6, 2, 64, 16, 0},        {6, 2, 64, 16, 100, false},   {2, 1, 20, 8, kKeySegment},
    {3, 3, 80, 16, 0, false}, {2, 2, 128, 32, 2500, false}, {9, 1, 32, 16, 1},
};

// A sequence whose keys and values are all in the arena.
class LongSequence {
 public:
  LongSequence(const OpsContext& context, const Case& shape, std::int64_t length,
               std::uint64_t seed)
      : context_(context),
        shape_(shape),
        arena_(shape, KvTypeOf(context.numerics()), length / shape.block_size + 1),
        sequence_(MakeSequence(shape, length, 0, seed)) {
    Append();
  }

  Sequence& sequence() { return sequence_; }
  const Sequence& sequence() const { return sequence_; }
  void Append() {
    const std::int64_t length = std::ssize(sequence_.k) / (shape_.kv_heads * shape_.head_dim);
    const KvSlice slice = SliceOf({0, length});
    const std::int64_t stride = shape_.kv_heads * shape_.head_dim;
    KvAppend(
        context_, arena_.kv(), {&slice, 1},
        {.k = sequence_.k.data(), .v = sequence_.v.data(), .k_stride = stride, .v_stride = stride},
        {0, length});
  }

  // Of positions [begin, end), in one call for `copies` sequences of the same tokens.
  std::vector<float> Attend(Range rows, int threads, std::size_t copies = 1) const {
    std::vector<float> out = AttendAll(std::vector<Range>(copies, rows), threads);
    const std::size_t floats = out.size() / copies;
    for (std::size_t i = 1; i < copies; ++i) {
      EXPECT_EQ(std::memcmp(out.data(), out.data() + i * floats, floats * 4), 0);
    }
    out.resize(floats);
    return out;
  }
  // Of a sequence of these tokens for each range, in one call; and again behind a barrier, as the
  // next layer would.
  std::vector<float> AttendAll(const std::vector<Range>& ranges, int threads) const {
    const std::int64_t row = shape_.heads * shape_.head_dim;
    std::vector<float> q;
    std::vector<KvSlice> slices;
    for (const Range& rows : ranges) {
      slices.push_back(SliceOf(rows));
      slices.back().first_row = static_cast<std::int64_t>(q.size()) / row;
      q.insert(q.end(), sequence_.q.begin() + rows.begin * row,
               sequence_.q.begin() + rows.end * row);
    }
    std::vector<float> out(q.size()), again(q.size());
    Split split(threads);
    ThreadPool& pool = PoolOf(threads);
    pool.Run([&](int index, int) {
      const Share share{&split, index};
      Attention(context_, arena_.kv(), slices, ArgsOf(shape_, q, out), share);
      pool.Barrier();
      Attention(context_, arena_.kv(), slices, ArgsOf(shape_, q, again), share);
    });
    EXPECT_EQ(std::memcmp(out.data(), again.data(), out.size() * 4), 0);
    return out;
  }

 private:
  KvSlice SliceOf(Range rows) const {
    return {.num_rows = rows.end - rows.begin,
            .first_position = rows.begin,
            .block_table = sequence_.table.data()};
  }

  const OpsContext& context_;
  Case shape_;
  Arena arena_;
  Sequence sequence_;
};

bool SameBytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

// Positions around the edges of segments, and of windows behind them.
constexpr std::array<Range, 3> kRanges = {{{kKeySegment - 9, kKeySegment + 70},
                                           {2 * kKeySegment - 3, 2 * kKeySegment + 4},
                                           {kLength - 31, kLength}}};

// Calls fn(numerics, shape, sequence) for each class and shape.
template <typename Fn>
void ForEachSequence(std::span<const Case> shapes, Fn&& fn) {
  for (NumericsClass numerics : Classes()) {
    for (const Case& shape : shapes) {
      SCOPED_TRACE(fmt::format("{} {}x{} window {}", Name(numerics), shape.heads, shape.head_dim,
                               shape.window));
      const OpsContext context = MakeContext(numerics, 5, 64, shape.head_dim);
      fn(numerics, shape, LongSequence(context, shape, kLength, 31));
    }
  }
}

TEST(AttentionSegmentsTest, LongSequencesAreCloseToTheExactResult) {
  ForEachSequence(
      kShapes, [](NumericsClass numerics, const Case& shape, const LongSequence& sequence) {
        for (std::int64_t row : {kKeySegment - 1, kKeySegment, kKeySegment + 99,
                                 2 * kKeySegment - 1, 2 * kKeySegment, kLength - 1}) {
          const std::vector<float> out = sequence.Attend({row, row + 1}, 2);
          for (std::int64_t head : {std::int64_t{0}, shape.heads - 1}) {
            const std::vector<double> exact =
                Exact(shape, KvTypeOf(numerics), sequence.sequence(), row, head);
            for (std::int64_t i = 0; i < shape.head_dim; ++i) {
              ASSERT_NEAR(out[head * shape.head_dim + i], exact[i], Bound(numerics, shape))
                  << "row " << row << " head " << head << " " << i;
            }
          }
        }
      });
}

TEST(AttentionSegmentsTest, ARowIsTheSameInAnyChunkBatchAndThreadCount) {
  ForEachSequence(kShapes, [](NumericsClass, const Case& shape, const LongSequence& sequence) {
    const std::int64_t row = shape.heads * shape.head_dim;
    for (const Range& range : kRanges) {
      // One thread, all rows at once: a segment after another.
      const std::vector<float> all = sequence.Attend(range, 1);
      EXPECT_TRUE(SameBytes(sequence.Attend(range, 5), all));
      for (std::int64_t position = range.begin; position < range.end; position += 17) {
        const std::int64_t at = (position - range.begin) * row;
        const std::vector<float> expected(all.begin() + at, all.begin() + at + row);
        // Alone, threads divide it by segments; of twenty each takes some.
        for (int threads : {1, 2, 5}) {
          ASSERT_TRUE(SameBytes(sequence.Attend({position, position + 1}, threads), expected))
              << "position " << position << " threads " << threads;
        }
        if (position % 2 == 0) {
          ASSERT_TRUE(SameBytes(sequence.Attend({position, position + 1}, 2, 20), expected))
              << "position " << position << " in a batch";
        }
      }
    }
  });
}

TEST(AttentionSegmentsTest, LongAndShortSequencesShareAStep) {
  constexpr std::int64_t kPositions[] = {kLength - 1,     0,   kKeySegment,      62,
                                         kKeySegment - 1, 900, kKeySegment + 130};
  const auto two_shapes = std::span(kShapes).first(2);
  ForEachSequence(two_shapes, [&](NumericsClass, const Case&, const LongSequence& sequence) {
    std::vector<Range> ranges;
    std::vector<float> expected;
    for (std::int64_t position : kPositions) {
      ranges.push_back({position, position + 1});
      const std::vector<float> alone = sequence.Attend(ranges.back(), 1);
      expected.insert(expected.end(), alone.begin(), alone.end());
    }
    for (int threads : {1, 2, 5}) {
      EXPECT_TRUE(SameBytes(sequence.AttendAll(ranges, threads), expected)) << threads;
    }
  });
}

// Its weights are all zero, so it counts for nothing, as such keys of a chunk do.
TEST(AttentionSegmentsTest, ASegmentOfScoresOfMinusInfinityIsLeftOut) {
  constexpr Case kShape{1, 1, 32, 16, 101, false};
  // A row, and the only key that it sees of its first or last segment.
  constexpr std::pair<std::int64_t, std::int64_t> kRows[] = {{kKeySegment + 99, kKeySegment - 1},
                                                             {kKeySegment, kKeySegment}};
  for (NumericsClass numerics : Classes()) {
    for (const auto& [row, at] : kRows) {
      SCOPED_TRACE(fmt::format("{} row {}", Name(numerics), row));
      const OpsContext context = MakeContext(numerics, 2, 64, kShape.head_dim);
      LongSequence sequence(context, kShape, kKeySegment + 101, 35);
      Sequence& s = sequence.sequence();
      float* key = s.k.data() + at * kShape.head_dim;
      std::fill_n(key, kShape.head_dim, 0.0f);
      key[0] = s.q[row * kShape.head_dim] > 0 ? -HUGE_VALF : HUGE_VALF;
      sequence.Append();
      const std::vector<double> exact = Exact(kShape, KvTypeOf(numerics), s, row, 0);
      const std::vector<float> out = sequence.Attend({row, row + 1}, 2);
      for (std::int64_t i = 0; i < kShape.head_dim; ++i) {
        ASSERT_NEAR(out[i], exact[i], Bound(numerics, kShape)) << i;
      }
    }
  }
}

TEST(AttentionSegmentsTest, AnInfiniteValueReachesOnlyTheRowsThatSeeIt) {
  constexpr Case kShape{4, 2, 64, 16, 0};
  constexpr std::int64_t kAt = kKeySegment + 40;
  constexpr Range kRows = {kKeySegment + 10, kKeySegment + 74};
  for (NumericsClass numerics : Classes()) {
    SCOPED_TRACE(Name(numerics));
    const OpsContext context = MakeContext(numerics, 2, 64);
    LongSequence sequence(context, kShape, kKeySegment + 100, 33);
    const std::vector<float> clean = sequence.Attend(kRows, 2);
    for (std::int64_t i = 0; i < 64; ++i) {
      sequence.sequence().v[kAt * 2 * 64 + i] = HUGE_VALF;  // of KV head 0
    }
    sequence.Append();
    const std::vector<float> out = sequence.Attend(kRows, 2);
    const std::int64_t row = kShape.heads * kShape.head_dim;
    EXPECT_EQ(std::memcmp(out.data(), clean.data(), (kAt - kRows.begin) * row * 4), 0);
    for (std::int64_t position = kRows.begin; position < kRows.end; ++position) {
      const float* of_row = out.data() + (position - kRows.begin) * row;
      EXPECT_EQ(std::isfinite(of_row[0]), position < kAt) << position;
      EXPECT_TRUE(std::isfinite(of_row[2 * 64])) << position;  // KV head 1
      const std::vector<float> alone = sequence.Attend({position, position + 1}, 2);
      ASSERT_EQ(std::memcmp(alone.data(), of_row, row * 4), 0) << position;
    }
  }
}

}  // namespace
}  // namespace tandem::ops
