// The pre-tokenizers that GGUF files know by name alone (tokenizer.ggml.pre).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/tokenizer/tokenizer_data.h"

namespace tandem::tokenizer {

struct NamedPreTokenizer {
  std::vector<PreTokenizerStep> steps;
  UnicodeForm form = UnicodeForm::kNone;
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
};

// Errors: InvalidArgument, with the names that are known.
StatusOr<NamedPreTokenizer> FindPreTokenizer(std::string_view name);

// GPT-2's pattern: what a tokenizer.json means by ByteLevel with use_regex.
std::string_view Gpt2Pattern();

}  // namespace tandem::tokenizer
