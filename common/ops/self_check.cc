#include "common/ops/self_check.h"

#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "common/base/random.h"
#include "common/ops/attention.h"
#include "common/ops/logits.h"
#include "common/ops/matmul.h"
#include "common/ops/rms_norm.h"
#include "common/ops/rope.h"
#include "common/ops/swiglu.h"

namespace tandem::ops {
namespace {

// In [-3, 3), with full mantissas: one rounding of exact values, the same on every machine.
std::vector<float> Inputs(std::int64_t count, std::uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = static_cast<float>(static_cast<std::int64_t>(random.Below(32768)) - 16384) * 0x1p-12f *
            0.7f;
  }
  return values;
}

std::uint64_t Digest(std::span<const float> values) {
  std::uint64_t digest = values.size();
  for (float value : values) digest = Mix64(digest ^ std::bit_cast<std::uint32_t>(value));
  return digest;
}

constexpr std::int64_t kInner = 256, kColumns = 83, kRows = 14;

std::uint64_t NormDigest(const OpsContext& context, const Activations& act) {
  const std::vector<float> x = Inputs(3 * 100, 1);
  const std::vector<float> weight = Inputs(100, 2);
  const ActivationView out = act.View(3, 100);
  RmsNorm(context, {.x = x.data(), .weight = weight.data(), .eps = 1e-5f}, out, {0, 3});
  return Digest({out.x, 300});
}

std::uint64_t SwigluDigest(const OpsContext& context, const Activations& act) {
  std::vector<float> gate = Inputs(200, 3);
  for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= static_cast<float>(i % 32);
  const std::vector<float> up = Inputs(200, 4);
  const ActivationView out = act.View(1, 200);
  Swiglu(context, {.gate = gate.data(), .up = up.data()}, out, {0, 1});
  return Digest({out.x, 200});
}

std::uint64_t ExpDigest(const OpsContext& context) {
  std::vector<float> x = Inputs(1500, 5);
  for (float& value : x) value = (value - 4.0f) * 12.0f;
  std::vector<float> out(x.size() + 1);
  out.back() = static_cast<float>(ExpSum(context, x, 0.0f, {out.data(), x.size()}));
  return Digest(out);
}

StatusOr<std::uint64_t> RopeDigest(const OpsContext& context) {
  std::vector<double> inv_freq;
  for (int i = 0; i < 16; ++i) inv_freq.push_back(128.0 / (1 << i));
  TANDEM_ASSIGN_OR_RETURN(const RopeTable table, RopeTable::Create(inv_freq, 1.125, 64));
  std::vector<float> x = Inputs(2 * 40, 6);
  const std::array<std::int32_t, 2> positions = {7, 63};
  Rope(context, table,
       {.x = x.data(), .x_stride = 40, .heads = 1, .head_dim = 40, .positions = positions.data()},
       {0, 2});
  return Digest(x);
}

// Random bytes with scales of 1/16 (halves of exponent 11) make a valid row of any type.
std::vector<std::byte> WeightBytes(WeightType type) {
  const WeightTypeInfo& info = Info(type);
  SplitMix64 random(7);
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(kColumns * kInner / info.block_elems * info.block_bytes));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Below(256));
  const auto put = [&](std::size_t at, int high) {
    bytes[at] = std::byte{0};
    bytes[at + 1] = static_cast<std::byte>(high);
  };
  for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(info.block_bytes)) {
    if (info.group == 0) {
      // A small positive or negative float of the width: the mantissa stays random.
      bytes[at + info.block_bytes - 1] = static_cast<std::byte>(random.Below(2) << 7 | 0x3c);
    } else if (type == WeightType::kQ6_K) {
      put(at + 208, 0x2c);
    } else {
      put(at, 0x2c);
      if (info.has_min) put(at + 2, 0x30);
    }
  }
  return bytes;
}

StatusOr<std::uint64_t> MatmulDigest(const OpsContext& context, const Activations& act,
                                     WeightType type) {
  const std::vector<std::byte> bytes = WeightBytes(type);
  TANDEM_ASSIGN_OR_RETURN(
      const PackedMatrix weights,
      PackedMatrix::Pack({.type = type, .n = kColumns, .k = kInner, .bytes = bytes},
                         context.numerics()));
  const ActivationView x = act.View(kRows, kInner);
  const std::vector<float> values = Inputs(kRows * kInner, 8);
  std::memcpy(x.x, values.data(), values.size() * sizeof(float));
  Prepare(context, x, {0, kRows});
  std::vector<float> y(kRows * kColumns);
  Matmul(context, weights, x, {.y = y.data()}, {});
  return Digest(y);
}

// Of the tokens [first, length) of one sequence.
std::vector<float> AttentionRows(const OpsContext& context, std::int64_t first, std::int64_t length,
                                 std::int64_t window) {
  constexpr std::int64_t kHeads = 3, kDim = 24, kBlock = 16;
  PagedKv kv{.type = KvTypeOf(context.numerics()),
             .num_kv_heads = 1,
             .block_size = kBlock,
             .head_dim = kDim};
  std::vector<std::int32_t> table;
  for (std::int64_t i = RoundUp(length, kBlock) / kBlock; i > 0; --i) {
    table.push_back(static_cast<std::int32_t>(i - 1));
  }
  std::vector<std::byte> arena(table.size() * static_cast<std::size_t>(kv.block_bytes()));
  kv.layer = arena.data();
  const std::int64_t rows = length - first;
  const std::vector<float> q = Inputs(rows * kHeads * kDim, 9);
  const std::vector<float> k = Inputs(length * kDim, 10);
  const std::vector<float> v = Inputs(length * kDim, 11);
  const KvSlice whole{.num_rows = length, .block_table = table.data()};
  KvAppend(context, kv, {&whole, 1},
           {.k = k.data(), .v = v.data(), .k_stride = kDim, .v_stride = kDim}, {0, length});
  const KvSlice slice{.num_rows = rows, .first_position = first, .block_table = table.data()};
  std::vector<float> out(2 * q.size());
  for (const bool precise : {false, true}) {
    Attention(context, kv, {&slice, 1},
              {.q = q.data(),
               .q_stride = kHeads * kDim,
               .out = out.data() + (precise ? q.size() : 0),
               .out_stride = kHeads * kDim,
               .num_heads = kHeads,
               .scale = 0.25f,
               .window = window,
               .precise = precise},
              {});
  }
  return out;
}

// Rows of one segment of keys, and of one to three.
std::uint64_t AttentionDigest(const OpsContext& context) {
  std::vector<float> all = AttentionRows(context, 0, 100, 80);
  const std::vector<float> more =
      AttentionRows(context, 2 * kKeySegment - 1, 2 * kKeySegment + 2, 0);
  all.insert(all.end(), more.begin(), more.end());
  return Digest(all);
}

struct NamedType {
  std::string_view name;
  WeightType type;
};
// One type of every layout and group size.
constexpr NamedType kTypes[] = {
    {"matmul F32", WeightType::kF32},   {"matmul F16", WeightType::kF16},
    {"matmul BF16", WeightType::kBF16}, {"matmul Q4_0", WeightType::kQ4_0},
    {"matmul Q4_1", WeightType::kQ4_1}, {"matmul Q5_1", WeightType::kQ5_1},
    {"matmul Q8_0", WeightType::kQ8_0}, {"matmul Q6_K", WeightType::kQ6_K},
};
constexpr std::size_t kNumKernels = 5 + std::size(kTypes);

// In the order of ComputeDigests.
using Digests = std::array<std::uint64_t, kNumKernels>;
constexpr Digests kScalarF32 = {0x0e4dad13c51097e1, 0xda047d468b086b3a, 0x50835e8a3b345f96,
                                0x4b3a281e1f84dfcf, 0x9288606f61c7da56, 0x24813e9590b8b801,
                                0xa39643a6b6c460fd, 0x68b12793735e5e19, 0x38bbbc3778ef5db4,
                                0x73ec271d8ba0af9c, 0x5954ec3cbf0b2637, 0x3e4268c1a2fa9356,
                                0x31f2cf0a11633355};
constexpr Digests kAvx2 = {0x55a0d3e1fd5a199c, 0x2b94e8487ca5d362, 0x48feb365381a79e9,
                           0x4b3a281e1f84dfcf, 0xcfa1f245d29811cd, 0x2421de091516f966,
                           0xf2b36d44d8e6b6e9, 0x55daa4e08d32076b, 0xf0175e79ce3ea116,
                           0x63c598b597401520, 0x8affa3701ba048b7, 0x386db68758b5815d,
                           0xcc5cdb2eb8180886};
constexpr Digests kAvx512 = {0x0e4dad13c51097e1, 0x2b94e8487ca5d362, 0x96d05af14b4e534d,
                             0x4b3a281e1f84dfcf, 0x010f130604c83b27, 0x2421de091516f966,
                             0xf2b36d44d8e6b6e9, 0x55daa4e08d32076b, 0xf0175e79ce3ea116,
                             0x63c598b597401520, 0x8affa3701ba048b7, 0x386db68758b5815d,
                             0xcc5cdb2eb8180886};
constexpr Digests kAvx512Vnni = {0x0e4dad13c51097e1, 0x2b94e8487ca5d362, 0x96d05af14b4e534d,
                                 0x4b3a281e1f84dfcf, 0x010f130604c83b27, 0x2421de091516f966,
                                 0xf2b36d44d8e6b6e9, 0x55daa4e08d32076b, 0x28a352a218046e99,
                                 0x5268f846784e3230, 0xec84050914d56ab5, 0x76efa7b05aeb5dd3,
                                 0xb384b7d423852b80};
constexpr Digests kAmx = {0x0e4dad13c51097e1, 0xd3d00a2dbb6a4950, 0x96d05af14b4e534d,
                          0x4b3a281e1f84dfcf, 0x1e2e07f5cea7d33f, 0x2421de091516f966,
                          0xf2b36d44d8e6b6e9, 0xa4a5118fe40bdb2e, 0x4e7875fb6b389d7a,
                          0x776ec56e192d848b, 0x3f06d56078418c95, 0xf409e908273f3c6b,
                          0x95527a73d31eadb5};

const Digests& Known(NumericsClass numerics) {
  switch (numerics) {
    case NumericsClass::kScalarF32:
      return kScalarF32;
    case NumericsClass::kAvx2:
      return kAvx2;
    case NumericsClass::kAvx512:
      return kAvx512;
    case NumericsClass::kAvx512Vnni:
      return kAvx512Vnni;
    case NumericsClass::kAmx:
      break;
  }
  return kAmx;
}

}  // namespace

StatusOr<std::vector<KernelDigest>> ComputeDigests(NumericsClass numerics) {
  TANDEM_ASSIGN_OR_RETURN(
      const OpsContext context,
      OpsContext::Create(
          {.numerics = numerics, .num_threads = 1, .max_inner_size = kInner, .head_dim = 24}));
  TANDEM_ASSIGN_OR_RETURN(const Activations act, Activations::Create(numerics, kRows, kInner));
  std::vector<KernelDigest> digests;
  digests.push_back({"rms_norm", NormDigest(context, act)});
  digests.push_back({"swiglu", SwigluDigest(context, act)});
  digests.push_back({"exp_sum", ExpDigest(context)});
  TANDEM_ASSIGN_OR_RETURN(const std::uint64_t rope, RopeDigest(context));
  digests.push_back({"rope", rope});
  digests.push_back({"attention", AttentionDigest(context)});
  for (const NamedType& named : kTypes) {
    TANDEM_ASSIGN_OR_RETURN(const std::uint64_t digest, MatmulDigest(context, act, named.type));
    digests.push_back({named.name, digest});
  }
  return digests;
}

std::string IdentityOf(NumericsClass numerics) {
  std::uint64_t all = 0;
  for (std::uint64_t digest : Known(numerics)) all = Mix64(all ^ digest);
  return fmt::format("{}.{:08x}", Name(numerics), static_cast<std::uint32_t>(all));
}

Status SelfCheck(NumericsClass numerics) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<KernelDigest> digests, ComputeDigests(numerics));
  const Digests& known = Known(numerics);
  for (std::size_t i = 0; i < digests.size(); ++i) {
    if (digests[i].digest == known[i]) continue;
    return FailedPrecondition(
        "this processor's {} is not that of numerics class {}: digest {:016x}, known {:016x}; "
        "force "
        "another class",
        digests[i].kernel, Name(numerics), digests[i].digest, known[i]);
  }
  return OkStatus();
}

}  // namespace tandem::ops
