#include "common/ops/numerics_class.h"

#include <array>
#include <optional>

namespace tandem::ops {
namespace {

constexpr std::array kAll = {NumericsClass::kScalarF32, NumericsClass::kAvx2,
                             NumericsClass::kAvx512, NumericsClass::kAvx512Vnni,
                             NumericsClass::kAmx};

bool Supports(const CpuFeatures& features, NumericsClass numerics) {
  switch (numerics) {
    case NumericsClass::kScalarF32:
      return true;
    case NumericsClass::kAvx2:
      return features.avx2;
    case NumericsClass::kAvx512:
      return features.avx512;
    case NumericsClass::kAvx512Vnni:
      return features.avx512_vnni;
    case NumericsClass::kAmx:
      return features.amx;
  }
  return false;
}

// First supported class wins. bf16 dot products of AMX tiles are above ten times fp32 on the Xeons
// measured, those of vectors half of it, so no class uses them; int8 dot products of vectors are
// 2.5 times fp32 there and 4 times on Zen 4.
struct TableRow {
  std::optional<CpuVendor> vendor;  // none: any
  NumericsClass numerics;
};
constexpr std::array kTable = {
    TableRow{std::nullopt, NumericsClass::kAmx},
    TableRow{std::nullopt, NumericsClass::kAvx512},
    TableRow{std::nullopt, NumericsClass::kAvx2},
    TableRow{std::nullopt, NumericsClass::kScalarF32},
};

std::string List(const std::vector<NumericsClass>& classes) {
  std::string text;
  for (NumericsClass numerics : classes) {
    if (!text.empty()) text += ", ";
    text += Name(numerics);
  }
  return text;
}

}  // namespace

std::string_view Name(NumericsClass numerics) {
  switch (numerics) {
    case NumericsClass::kScalarF32:
      return "scalar-f32";
    case NumericsClass::kAvx2:
      return "avx2";
    case NumericsClass::kAvx512:
      return "avx512";
    case NumericsClass::kAvx512Vnni:
      return "avx512-vnni";
    case NumericsClass::kAmx:
      return "amx";
  }
  return "?";
}

ActivationImage ImageOf(NumericsClass numerics) {
  switch (numerics) {
    case NumericsClass::kAvx512Vnni:
      return ActivationImage::kInt8;
    case NumericsClass::kAmx:
      return ActivationImage::kBf16;
    default:
      return ActivationImage::kNone;
  }
}

KvType KvTypeOf(NumericsClass numerics) {
  return numerics == NumericsClass::kScalarF32 ? KvType::kF32 : KvType::kBf16;
}

std::vector<NumericsClass> SupportedClasses(const CpuFeatures& features) {
  std::vector<NumericsClass> classes;
  for (NumericsClass numerics : kAll) {
    if (Supports(features, numerics)) classes.push_back(numerics);
  }
  return classes;
}

StatusOr<NumericsClass> ChooseClass(std::string_view forced, const CpuFeatures& features) {
  if (forced.empty()) {
    for (const TableRow& row : kTable) {
      if (row.vendor.has_value() && *row.vendor != features.vendor) continue;
      if (Supports(features, row.numerics)) return row.numerics;
    }
    return NumericsClass::kScalarF32;
  }
  for (NumericsClass numerics : kAll) {
    if (Name(numerics) != forced) continue;
    if (Supports(features, numerics)) return numerics;
    return FailedPrecondition(
        "numerics class {} needs instructions that this processor ({}) lacks; it can run {}",
        forced, features.ToString(), List(SupportedClasses(features)));
  }
  return InvalidArgument("unknown numerics class \"{}\"; this processor can run {}", forced,
                         List(SupportedClasses(features)));
}

}  // namespace tandem::ops
