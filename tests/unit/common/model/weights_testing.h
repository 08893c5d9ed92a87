// What the tests of packed and shared weights have in common.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/model/model.h"
#include "common/model/model_files.h"
#include "common/model/weight_cache.h"
#include "common/model/weight_plan.h"
#include "tests/testing/model_generator.h"
#include "tests/testing/paths.h"

namespace tandem::model {

inline constexpr std::int64_t kWindow = WeightPlan::kWindowBytes;

// Some windows of 2 MiB when packed as f32, in a small file.
inline testing::TestModel SomeWindows(std::uint64_t seed) {
  testing::ModelSpec spec = testing::ModelSpec::Of(testing::Arch::kLlama);
  spec.hidden = 256;
  spec.ff = 736;
  spec.layers = 4;
  return testing::GenerateModel(spec, {.seed = seed, .dtype = formats::DType::kQ4_1});
}

// Every size is shared, every file is settled, and the disk may be as full as it is.
inline WeightCache::Options CacheAt(const std::string& folder) {
  return {
      .folder = folder, .free_percent = 0, .min_bytes = ByteCount(0), .settled_after = Duration(0)};
}

inline StatusOr<std::unique_ptr<Model>> LoadScalar(const std::string& path,
                                                   std::optional<WeightCache::Options> cache,
                                                   int threads = 2) {
  return Model::Load(path, {.numerics = "scalar-f32",
                            .threads = threads,
                            .progress = nullptr,
                            .weight_cache = std::move(cache)});
}

// Runs `body` in a child process, which ends with its result: what waitpid tells of it.
class Child {
 public:
  explicit Child(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ == 0) ::_exit(body());
  }
  int Wait() const {
    int status = -1;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    return status;
  }

 private:
  pid_t pid_;
};

}  // namespace tandem::model
