#include "common/base/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstring>
#include <string_view>

namespace tandem {
namespace {

#if defined(__x86_64__)
CpuVendor DetectVendor() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return CpuVendor::kOther;
  char name[12];
  std::memcpy(name, &ebx, 4);
  std::memcpy(name + 4, &edx, 4);
  std::memcpy(name + 8, &ecx, 4);
  const std::string_view vendor(name, sizeof name);
  if (vendor == "GenuineIntel") return CpuVendor::kIntel;
  if (vendor == "AuthenticAMD") return CpuVendor::kAmd;
  return CpuVendor::kOther;
}
#endif

#if defined(__x86_64__) && defined(__linux__)
// Whether this process may use AMX: the kernel keeps the tile registers only of processes that
// asked (Linux 5.16 and later).
bool AskForTiles() {
  constexpr int kAmxTileInt8Bf16 = (1 << 22) | (1 << 24) | (1 << 25);  // edx of leaf 7
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kAmxTileInt8Bf16) != kAmxTileInt8Bf16) return false;
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

std::string_view VendorName(CpuVendor vendor) {
  switch (vendor) {
    case CpuVendor::kIntel:
      return "Intel";
    case CpuVendor::kAmd:
      return "AMD";
    case CpuVendor::kOther:
      break;
  }
  return "other vendor";
}

}  // namespace

CpuFeatures DetectCpuFeatures() {
  CpuFeatures features;
#if defined(__x86_64__)
  // The builtins also ask whether the operating system saves the registers.
  __builtin_cpu_init();
  features.vendor = DetectVendor();
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  features.avx2 = f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  features.avx512 = features.avx2 && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
  features.avx512_vnni = features.avx512 && __builtin_cpu_supports("avx512vnni");
  features.avx512_bf16 = features.avx512 && __builtin_cpu_supports("avx512bf16");
#if defined(__linux__)
  features.amx = features.avx512_vnni && features.avx512_bf16 && AskForTiles();
#endif
#endif
  return features;
}

std::string CpuFeatures::ToString() const {
  std::string text(VendorName(vendor));
  text += ':';
  if (avx2) text += " avx2";
  if (avx512) text += " avx512";
  if (avx512_vnni) text += " avx512-vnni";
  if (avx512_bf16) text += " avx512-bf16";
  if (amx) text += " amx";
  if (!avx2) text += " baseline x86-64";
  return text;
}

}  // namespace tandem
