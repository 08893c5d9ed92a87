#include "tests/bench/engine/ceiling.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "common/base/thread_pool.h"
#include "common/ops/aligned_buffer.h"
#include "tests/bench/engine/peak_loops.h"

namespace tandem::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRounds = 7;
constexpr std::chrono::milliseconds kRound{20};

// Eight lanes of eight words: two loads a cycle, where the compiler has vectors.
using Words = std::uint64_t __attribute__((vector_size(64)));

inline void Sum(const std::byte* from, std::int64_t bytes) {
  Words sum[8] = {};
  const auto* words = reinterpret_cast<const Words*>(from);
  const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(Words)) / 8 * 8;
  for (std::int64_t i = 0; i < count; i += 8) {
    for (int j = 0; j < 8; ++j) sum[j] += words[i + j];
  }
  for (Words& lane : sum) asm volatile("" : "+m"(lane));  // used, as far as the compiler knows
}

#if defined(__x86_64__)
__attribute__((target("avx512f"), flatten)) void ReadAvx512(const std::byte* from,
                                                            std::int64_t bytes) {
  Sum(from, bytes);
}
__attribute__((target("avx2"), flatten)) void ReadAvx2(const std::byte* from, std::int64_t bytes) {
  Sum(from, bytes);
}
#endif
void ReadPlain(const std::byte* from, std::int64_t bytes) { Sum(from, bytes); }

using Read = void (*)(const std::byte* from, std::int64_t bytes);
Read ReadOfThisCpu() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return &ReadAvx512;
  if (__builtin_cpu_supports("avx2")) return &ReadAvx2;
#endif
  return &ReadPlain;
}

// Calls of `work` a second, the best round of several. `work` runs on every thread.
template <typename Work>
double RatePerSecond(ThreadPool& pool, Work work) {
  double best = 0;
  int calls = 1;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    pool.Run([&](int thread_idx, int num_threads) {
      for (int i = 0; i < calls; ++i) work(thread_idx, num_threads);
    });
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, calls / seconds);
    calls = std::max(1, static_cast<int>(best * std::chrono::duration<double>(kRound).count()));
  }
  return best;
}

}  // namespace

StatusOr<Ceiling> MeasureCeiling(std::int64_t read_bytes, int threads) {
  Ceiling ceiling{.read_gb_s = 0, .read_bytes = read_bytes, .peaks = {}};
  TANDEM_ASSIGN_OR_RETURN(const ops::AlignedBuffer set, ops::AlignedBuffer::Allocate(read_bytes));
  ThreadPool pool(threads);
  const std::int64_t part = read_bytes / threads / 4096 * 4096;
  pool.Run([&](int thread_idx, int) {  // zero pages would all be one page
    std::memset(set.data() + thread_idx * part, 1 + thread_idx, static_cast<std::size_t>(part));
  });
  const Read read = ReadOfThisCpu();
  const double reads =
      RatePerSecond(pool, [&](int thread_idx, int) { read(set.data() + thread_idx * part, part); });
  ceiling.read_gb_s = reads * static_cast<double>(part * threads) * 1e-9;
  for (const PeakLoop& loop : PeakLoops()) {
    constexpr std::int64_t kIterations = 10000;
    const double calls = RatePerSecond(pool, [&](int, int) { loop.run(kIterations); });
    const double ops = static_cast<double>(loop.ops_per_iteration * kIterations * threads);
    ceiling.peaks.push_back({std::string(loop.name), calls * ops * 1e-9});
  }
  return ceiling;
}

std::string_view PeakOf(std::string_view numerics_class) {
  if (numerics_class == "avx2") return "f32 avx2";
  if (numerics_class == "avx512") return "f32 avx512";
  if (numerics_class == "avx512-vnni") return "int8 vnni";
  if (numerics_class.substr(0, 3) == "amx") return "bf16 amx";
  return "";
}

}  // namespace tandem::bench
