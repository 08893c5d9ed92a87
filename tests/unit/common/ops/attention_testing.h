// What the attention tests share: random sequences in an arena, and the exact result.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/ops/attention.h"
#include "common/ops/paged_kv.h"
#include "tests/unit/common/ops/ops_testing.h"

namespace tandem::ops {

struct Case {
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
  std::int64_t block_size;
  std::int64_t window;
  bool precise = true;
};

// AMX works on weights rounded to bf16, and where it is not precise on such queries, the others on
// f32.
inline double Bound(NumericsClass numerics, const Case& shape) {
  if (numerics != NumericsClass::kAmx) return 1e-5;
  return shape.precise ? 5e-3 : 2e-2;
}

// One sequence of `length` tokens with random rotated queries, keys and values.
struct Sequence {
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
  std::vector<std::int32_t> table;
};

class Arena {
 public:
  Arena(const Case& shape, KvType type, std::int64_t num_blocks)
      : kv_{.layer = nullptr,
            .type = type,
            .num_kv_heads = shape.kv_heads,
            .block_size = shape.block_size,
            .head_dim = shape.head_dim},
        bytes_(static_cast<std::size_t>(num_blocks * kv_.block_bytes())) {
    kv_.layer = bytes_.data();
  }
  const PagedKv& kv() const { return kv_; }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  PagedKv kv_;
  std::vector<std::byte> bytes_;
};

inline Sequence MakeSequence(const Case& shape, std::int64_t length, std::int32_t first_block,
                             std::uint64_t seed) {
  Sequence sequence;
  sequence.q = RandomFloats(length * shape.heads * shape.head_dim, seed, 2.0);
  sequence.k = RandomFloats(length * shape.kv_heads * shape.head_dim, seed + 1);
  sequence.v = RandomFloats(length * shape.kv_heads * shape.head_dim, seed + 2);
  const std::int64_t blocks = (length + shape.block_size - 1) / shape.block_size;
  for (std::int64_t i = blocks; i > 0; --i) {  // not in order
    sequence.table.push_back(first_block + static_cast<std::int32_t>(i - 1));
  }
  return sequence;
}

inline AttentionArgs ArgsOf(const Case& shape, const std::vector<float>& q,
                            std::vector<float>& out) {
  const std::int64_t q_row = shape.heads * shape.head_dim;
  return {.q = q.data(),
          .q_stride = q_row,
          .out = out.data(),
          .out_stride = q_row,
          .num_heads = shape.heads,
          .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim)),
          .window = shape.window,
          .precise = shape.precise};
}

// Appends and attends rows [begin, end) of each sequence, in one call.
inline void Step(const OpsContext& context, const Case& shape, const PagedKv& kv,
                 const std::vector<const Sequence*>& sequences, Range rows, int threads,
                 std::vector<std::vector<float>>& outs) {
  const std::int64_t q_row = shape.heads * shape.head_dim;
  const std::int64_t kv_row = shape.kv_heads * shape.head_dim;
  const std::int64_t count = rows.end - rows.begin;
  std::vector<float> q, k, v;
  std::vector<KvSlice> slices;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Sequence& s = *sequences[i];
    q.insert(q.end(), s.q.begin() + rows.begin * q_row, s.q.begin() + rows.end * q_row);
    k.insert(k.end(), s.k.begin() + rows.begin * kv_row, s.k.begin() + rows.end * kv_row);
    v.insert(v.end(), s.v.begin() + rows.begin * kv_row, s.v.begin() + rows.end * kv_row);
    slices.push_back({.first_row = static_cast<std::int64_t>(i) * count,
                      .num_rows = count,
                      .first_position = rows.begin,
                      .block_table = s.table.data()});
  }
  std::vector<float> out(q.size());
  ThreadPool& pool = PoolOf(threads);
  Split split(threads);
  const std::int64_t all = count * static_cast<std::int64_t>(sequences.size());
  pool.Run([&](int index, int) {
    const Share share{&split, index};
    share.ForEach(all, [&](Range some) {
      KvAppend(context, kv, slices,
               {.k = k.data(), .v = v.data(), .k_stride = kv_row, .v_stride = kv_row}, some);
    });
    pool.Barrier();
    Attention(context, kv, slices, ArgsOf(shape, q, out), share);
  });
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    outs[i].insert(outs[i].end(), out.begin() + static_cast<std::int64_t>(i) * count * q_row,
                   out.begin() + static_cast<std::int64_t>(i + 1) * count * q_row);
  }
}

inline float StoredAs(KvType type, float value) {
  if (type == KvType::kF32) return value;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  return std::bit_cast<float>(bits);
}

// In double, over the stored values.
inline std::vector<double> Exact(const Case& shape, KvType type, const Sequence& s,
                                 std::int64_t row, std::int64_t head) {
  const std::int64_t d = shape.head_dim;
  const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
  const float* q = s.q.data() + (row * shape.heads + head) * d;
  const std::int64_t first =
      shape.window > 0 ? std::max<std::int64_t>(0, row - shape.window + 1) : 0;
  std::vector<double> weights;
  double max = -1e300;
  for (std::int64_t key = first; key <= row; ++key) {
    double score = 0;
    for (std::int64_t i = 0; i < d; ++i) {
      score +=
          static_cast<double>(q[i]) * StoredAs(type, s.k[(key * shape.kv_heads + kv_head) * d + i]);
    }
    weights.push_back(score / std::sqrt(static_cast<double>(d)));
    max = std::max(max, weights.back());
  }
  double total = 0;
  for (double& w : weights) total += w = std::exp(w - max);
  std::vector<double> out(static_cast<std::size_t>(d));
  for (std::int64_t key = first; key <= row; ++key) {
    for (std::int64_t i = 0; i < d; ++i) {
      out[i] += weights[key - first] / total *
                StoredAs(type, s.v[(key * shape.kv_heads + kv_head) * d + i]);
    }
  }
  return out;
}

}  // namespace tandem::ops
