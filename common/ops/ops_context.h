// What every operator needs to run: the class's kernels, each thread's scratch memory, and memory
// for parts of attention. Made once per engine; the threads of one pool share it. Two pools that
// run at the same time need one each.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "common/ops/aligned_buffer.h"
#include "common/ops/attention_parts.h"
#include "common/ops/kernels.h"
#include "common/ops/numerics_class.h"

namespace tandem::ops {

// The kernels of a class. Requires: the processor supports it before one is called.
const Kernels& KernelsOf(NumericsClass numerics);

class OpsContext {
 public:
  struct Options {
    NumericsClass numerics = NumericsClass::kScalarF32;
    int num_threads = 1;
    std::int64_t max_inner_size = 0;  // largest k of any matrix
    std::int64_t head_dim = 0;        // 1..256
    Status Validate() const;
  };
  // Errors: InvalidArgument from Validate(), ResourceExhausted.
  static StatusOr<OpsContext> Create(const Options& options);

  NumericsClass numerics() const { return numerics_; }
  const Kernels& kernels() const { return *kernels_; }
  // Requires: 0 <= thread_idx < num_threads.
  float* scratch(int thread_idx) const {
    return scratch_.As<float>() + thread_idx * scratch_floats_;
  }
  const AttentionParts& attention_parts() const { return attention_parts_; }

 private:
  NumericsClass numerics_ = NumericsClass::kScalarF32;
  const Kernels* kernels_ = nullptr;
  std::int64_t scratch_floats_ = 0;  // per thread
  AlignedBuffer scratch_;
  AttentionParts attention_parts_;
};

}  // namespace tandem::ops
