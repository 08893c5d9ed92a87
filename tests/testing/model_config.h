// A ModelSpec as the two formats spell it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/testing/gguf_writer.h"
#include "tests/testing/test_model.h"

namespace tandem::testing {

// general.architecture: Mistral is "llama" there.
std::string_view GgufArch(Arch arch);

// general.* and {arch}.* pairs.
void AddModelMetadata(std::string_view name, const ModelSpec& spec, std::size_t vocab,
                      GgufWriter& writer);

// config.json.
std::string HfConfigJson(const ModelSpec& spec, std::size_t vocab, std::int32_t bos,
                         std::int32_t eos);

}  // namespace tandem::testing
