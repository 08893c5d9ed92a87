// Holds a processor to its numerics class: every kernel runs on fixed inputs and must give the
// known bytes. Run it once at start-up (a few milliseconds): a machine that differs would belong to
// another class, and its streams could not be taken over byte for byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/ops/numerics_class.h"

namespace tandem::ops {

struct KernelDigest {
  std::string_view kernel;  // "matmul Q4_1"
  std::uint64_t digest;     // of the output's bits
  bool operator==(const KernelDigest&) const = default;
};

// What this processor computes. Requires: it supports `numerics`.
StatusOr<std::vector<KernelDigest>> ComputeDigests(NumericsClass numerics);

// The class and a digest of its known bytes, "amx.1f3a9c20": builds whose kernels differ are of
// different classes to one another.
std::string IdentityOf(NumericsClass numerics);

// Errors: FailedPrecondition naming the first kernel that differs, with both digests.
Status SelfCheck(NumericsClass numerics);

}  // namespace tandem::ops
