// What the operator tests share: seeded data, quantised weights of every type, the classes that
// this processor can run.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "common/base/cpu_features.h"
#include "common/base/random.h"
#include "common/base/thread_pool.h"
#include "common/ops/numerics_class.h"
#include "common/ops/ops_context.h"
#include "common/ops/weight_blocks.h"

namespace tandem::ops {

inline std::vector<NumericsClass> Classes() { return SupportedClasses(DetectCpuFeatures()); }

inline std::vector<NumericsClass> FastClasses() {
  std::vector<NumericsClass> classes = Classes();
  classes.erase(classes.begin());
  return classes;
}

inline OpsContext MakeContext(NumericsClass numerics, int num_threads, std::int64_t max_k,
                              std::int64_t head_dim = 64) {
  auto context = OpsContext::Create({.numerics = numerics,
                                     .num_threads = num_threads,
                                     .max_inner_size = max_k,
                                     .head_dim = head_dim});
  return *std::move(context);
}

// Starting threads is slow under sanitizers: one pool of each size for all tests.
inline ThreadPool& PoolOf(int num_threads) {
  static std::map<int, ThreadPool> pools;
  return pools.try_emplace(num_threads, num_threads).first->second;
}

// Roughly normal, magnitude about 1.
inline std::vector<float> RandomFloats(std::int64_t count, std::uint64_t seed,
                                       double magnitude = 1.0) {
  SplitMix64 random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    double sum = -3;
    for (int i = 0; i < 6; ++i) sum += random.Unit();
    value = static_cast<float>(sum * 1.4 * magnitude);
  }
  return values;
}

struct OwnedWeights {
  WeightSource source;
  std::vector<std::byte> bytes;
};

inline void PutHalf(std::uint16_t half, std::byte* to) {
  to[0] = static_cast<std::byte>(half & 255);
  to[1] = static_cast<std::byte>(half >> 8);
}

// Random blocks whose scales are halves near 2^-6, so that every stored bit pattern is exercised.
inline OwnedWeights RandomWeights(WeightType type, std::int64_t n, std::int64_t k,
                                  std::uint64_t seed) {
  SplitMix64 random(seed);
  const WeightTypeInfo& info = Info(type);
  OwnedWeights weights;
  weights.bytes.resize(static_cast<std::size_t>(n * k / info.block_elems * info.block_bytes));
  for (std::byte& byte : weights.bytes) byte = static_cast<std::byte>(random.Below(256));
  const auto small_half = [&] {  // 2^-7 … 2^-5, either sign
    return static_cast<std::uint16_t>(random.Below(2) << 15 | (8 + random.Below(2)) << 10 |
                                      random.Below(1024));
  };
  for (std::size_t at = 0; at < weights.bytes.size();
       at += static_cast<std::size_t>(info.block_bytes)) {
    std::byte* block = weights.bytes.data() + at;
    switch (type) {
      case WeightType::kF32: {
        const float value = static_cast<float>(random.Unit() - 0.5);
        std::memcpy(block, &value, sizeof value);
        break;
      }
      case WeightType::kF16:
        PutHalf(static_cast<std::uint16_t>(small_half() + (4 << 10)), block);
        break;
      case WeightType::kBF16:
        PutHalf(static_cast<std::uint16_t>(random.Below(2) << 15 | 0x3e00 | random.Below(256)),
                block);
        break;
      case WeightType::kQ6_K:
        PutHalf(static_cast<std::uint16_t>(small_half() - (5 << 10)), block + 208);
        break;
      case WeightType::kQ4_K:
      case WeightType::kQ5_K:
        PutHalf(static_cast<std::uint16_t>(small_half() - (4 << 10)), block);
        PutHalf(static_cast<std::uint16_t>(small_half() - (4 << 10)), block + 2);
        break;
      default:
        PutHalf(small_half(), block);
        if (info.has_min) PutHalf(small_half(), block + 2);
        break;
    }
  }
  weights.source = {.type = type, .n = n, .k = k, .bytes = weights.bytes};
  return weights;
}

inline constexpr WeightType kAllTypes[] = {WeightType::kF32,  WeightType::kF16,  WeightType::kBF16,
                                           WeightType::kQ4_0, WeightType::kQ4_1, WeightType::kQ5_0,
                                           WeightType::kQ5_1, WeightType::kQ8_0, WeightType::kQ4_K,
                                           WeightType::kQ5_K, WeightType::kQ6_K};

inline std::string TypeName(WeightType type) {
  static constexpr const char* kNames[] = {"F32",  "F16",  "BF16", "Q4_0", "Q4_1", "Q5_0",
                                           "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"};
  return kNames[static_cast<int>(type)];
}

}  // namespace tandem::ops
