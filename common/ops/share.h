// Calling convention of the operators.
//
// Every operator is one function that every thread of a ThreadPool::Run calls with its own Share;
// each computes its part, cut along rows and columns only, so that no value depends on the number
// of threads. Operators hold no barrier: the caller puts ThreadPool::Barrier() where one operator
// reads what another wrote.
//
//   pool.Run([&](int thread_idx, int num_threads) {
//     const Share share{thread_idx, num_threads};
//     RmsNorm(ops, {.x = hidden, .weight = norm, .eps = 1e-5f}, act, share);
//     pool.Barrier();
//     Matmul(ops, wq, act, {.y = q}, share);  // independent of the next two: no barrier between
//     Matmul(ops, wk, act, {.y = k}, share);
//     Matmul(ops, wv, act, {.y = v}, share);
//     pool.Barrier();
//     ...
#pragma once

#include <cstdint>

namespace tandem::ops {

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

struct Share {
  int index = 0;
  int count = 1;

  // This thread's part of [0, total), in whole units but for the last.
  Range Of(std::int64_t total, std::int64_t unit = 1) const {
    const std::int64_t units = (total + unit - 1) / unit;
    const std::int64_t begin = units * index / count * unit;
    const std::int64_t end = units * (index + 1) / count * unit;
    return {begin < total ? begin : total, end < total ? end : total};
  }
};

}  // namespace tandem::ops
