// The rounds of SHA-256 (FIPS 180-4, section 6.2.2) for sixteen messages at once, a lane of AVX-512
// each. Its source is compiled for that instruction set, so this header may include nothing that
// has external inline functions.
#pragma once

#include <stdint.h>

namespace tandem {

// Takes the next `blocks` blocks of 64 bytes of each lane into state[word][lane].
// Requires: AVX-512 F and BW.
void Sha256Avx512(uint32_t (*state)[16], const uint8_t* const* lanes, int64_t blocks);

}  // namespace tandem
