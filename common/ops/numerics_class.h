// The kernel families. Inside one class the bytes of a token's row depend on that token's own
// prefix and position only, on every machine of the class; two classes make no promise.
//
//   class        weights                        activations            KV    needs
//   scalar-f32   f32                            f32                    f32   nothing
//   avx2         int8 panels + f32 scales, or   f32                    bf16  AVX2, FMA, F16C
//                the file's own float type
//   avx512       as avx2                        f32                    bf16  AVX-512 F BW DQ VL
//   avx512-vnni  as avx2                        int8 per row and 32,   bf16  AVX-512 VNNI
//                                               f32 on float weights
//   amx          as avx2                        12 bits per row and    bf16  AMX int8 and bf16,
//                                               32, f32 on float             avx512-vnni
//                                               weights
//
// The class comes from a table by vendor and instruction set or from a flag, never from a timing.
// The table takes the fastest class whose activations are as good as f32; 12 bits that share a
// scale with 31 neighbours are. int8 ones move logits about ten times as far from the f32 reference
// (bounds: tests/integration/engine), and so are for those who ask for them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/cpu_features.h"
#include "common/base/status.h"

namespace tandem::ops {

enum class NumericsClass : std::uint8_t { kScalarF32, kAvx2, kAvx512, kAvx512Vnni, kAmx };

// What keys and values are stored as.
enum class KvType : std::uint8_t { kF32, kBf16 };

std::string_view Name(NumericsClass numerics);  // "avx512-vnni"
KvType KvTypeOf(NumericsClass numerics);
// int8 planes of the activations that meet quantised weights: 0 where they stay f32.
int ActivationPlanes(NumericsClass numerics);
inline int ElementBytes(KvType type) { return type == KvType::kF32 ? 4 : 2; }

// In ascending order of the enum; never empty.
std::vector<NumericsClass> SupportedClasses(const CpuFeatures& features);

// `forced` names a class, or is empty for the table's choice. Errors: InvalidArgument for an
// unknown name; FailedPrecondition for a class that this processor cannot run. Both list those
// that it can.
StatusOr<NumericsClass> ChooseClass(std::string_view forced, const CpuFeatures& features);

}  // namespace tandem::ops
