// A tokenizer as data, written the way GGUF and Hugging Face files carry it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/testing/gguf_writer.h"

namespace tandem::testing {

// ggml's token types.
enum class TokenType : std::int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUnused = 5,
  kByte = 6
};

struct TestTokenizer {
  enum class Kind { kBpe, kSpm };

  Kind kind = Kind::kBpe;
  std::string pre = "smollm";       // kBpe: the pre-tokenizer's GGUF name
  std::vector<std::string> tokens;  // by id; kBpe in GPT-2's alphabet, kSpm with "▁"
  std::vector<TokenType> types;     // by id
  std::vector<std::string> merges;  // "a b", best first
  std::vector<float> scores;        // kSpm, by id
  std::int32_t bos = 0;
  std::int32_t eos = 0;
  std::int32_t unknown = 0;
  bool add_bos = false;
  bool add_space_prefix = false;
  std::string chat_template;  // empty: none

  // Adds tokens of type kUnused until there are `size`.
  void PadTo(std::size_t size);
  // The tokenizer.ggml.* pairs.
  void AddTo(GgufWriter& writer) const;
  // tokenizer.json (without kUnused tokens) and tokenizer_config.json.
  std::string TokenizerJson() const;
  std::string ConfigJson() const;
};

// Byte-level BPE: three control tokens as SmolLM2 has them (<|endoftext|>, <|im_start|>,
// <|im_end|>: ids 0 to 2), the 256 bytes, then merges of some common English words.
TestTokenizer MakeBpeTokenizer();

// The template of ChatML models: <|im_start|>role\ncontent<|im_end|>\n.
std::string_view ChatMlTemplate();

// llama2.c's tok.bin: i32 max_token_length, then f32 score, i32 length, bytes for each of
// `vocab_size` tokens. Requires: a whole file of that layout.
TestTokenizer ReadLlama2cTokenizer(std::string_view tok_bin, int vocab_size);

}  // namespace tandem::testing
