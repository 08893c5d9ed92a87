// What the processor and the operating system together can run: instruction sets by cpuid.
#pragma once

#include <cstdint>
#include <string>

namespace tandem {

enum class CpuVendor : std::uint8_t { kIntel, kAmd, kOther };

struct CpuFeatures {
  CpuVendor vendor = CpuVendor::kOther;
  bool avx2 = false;    // with FMA and F16C
  bool avx512 = false;  // F, BW, DQ and VL: Skylake-X and later
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
  bool amx = false;  // tiles of int8 and bf16, with avx512_vnni and avx512_bf16

  bool operator==(const CpuFeatures&) const = default;
  std::string ToString() const;  // "Intel: avx2 avx512 avx512-vnni"
};

// Also asks the kernel for AMX on behalf of the whole process: tiles work only after it.
CpuFeatures DetectCpuFeatures();

}  // namespace tandem
