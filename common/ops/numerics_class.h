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
//   amx          bf16 tiles, made of what the   bf16, f32 on F32 and   bf16  AMX bf16, AVX-512
//                file has; F32 and F16 as avx2  F16 weights                  VNNI and BF16
//
// In attention class amx rounds weights to bf16, and queries too where the model's are made by
// quantised weights, else it takes them as the sum of two bf16; the others compute in f32.
//
// A class's bytes are those of a build: workers tell each other ops::IdentityOf (self_check.h).
// The class comes from a table by vendor and instruction set or from a flag, never from a timing.
// The table takes the fastest class that is nearer to the f32 reference than llama.cpp's CPU path
// on every type of file; int8 activations (avx512-vnni) are not always, and are for those who ask
// for them (bounds: tests/integration/engine; figures: tests/bench/README.md).
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
// What activations become before they meet weights that are quantised or, for kBf16, bf16.
enum class ActivationImage : std::uint8_t { kNone, kInt8, kBf16 };
ActivationImage ImageOf(NumericsClass numerics);
inline int ElementBytes(KvType type) { return type == KvType::kF32 ? 4 : 2; }

// In ascending order of the enum; never empty.
std::vector<NumericsClass> SupportedClasses(const CpuFeatures& features);

// `forced` names a class, or is empty for the table's choice. Errors: InvalidArgument for an
// unknown name; FailedPrecondition for a class that this processor cannot run. Both list those
// that it can.
StatusOr<NumericsClass> ChooseClass(std::string_view forced, const CpuFeatures& features);

}  // namespace tandem::ops
