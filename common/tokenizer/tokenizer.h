// Turns text into token ids. Built once per model, then immutable.
//
//   auto tokenizer = LoadTokenizerFromGguf(file);   // tokenizer_loader.h
//   auto ids = tokenizer->Encode(MarkedText::FromUser("Hi"), {.add_special_tokens = true});
//
// Special tokens are matched only where no byte comes from a user; added tokens that are not
// special are matched anywhere; all other text is tokenized over the whole concatenation, wherever
// its bytes come from. Thread-safe: every method is const and shares no scratch memory.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/hash128.h"
#include "common/base/marked_text.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/tokenizer/tokenizer_data.h"

namespace tandem::tokenizer {

struct EncodeOptions {
  // Puts the model's prefix (usually bos) and suffix around the text. A rendered chat prompt has
  // its own: leave false.
  bool add_special_tokens = false;
  // Lets special tokens be matched in trusted text; false: their text is ordinary everywhere.
  bool parse_special = true;
};

class Tokenizer {
 public:
  // Checks `data` and builds the tables.
  // Errors: InvalidArgument (ids out of range, merges of unknown tokens, a regular expression
  // outside the subset, …).
  static StatusOr<Tokenizer> Create(TokenizerData data);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Time is O(n log n) in the bytes of the text, whatever they are.
  // Errors: InvalidArgument if the text is not UTF-8 (with the offset of the first bad byte) or has
  // a character that the vocabulary cannot express; ResourceExhausted if a regular expression gives
  // up.
  StatusOr<TokenIds> Encode(const MarkedText& text, const EncodeOptions& options) const;

  // The text of all of `ids`: invalid bytes become U+FFFD, special tokens are left out unless asked
  // for.
  std::string Decode(std::span<const TokenId> ids, bool skip_special = true) const;

  TokenCount vocab_size() const;
  // The bytes the token stands for in output: empty for an id outside the vocabulary; literal text
  // for special ones.
  std::string_view TokenBytes(TokenId id) const;
  bool IsSpecial(TokenId id) const;
  // A "<0xXX>" token of a character vocabulary.
  bool IsByteToken(TokenId id) const;

  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  // Every id that ends an answer, ascending.
  const std::vector<TokenId>& end_of_generation() const;
  bool IsEndOfGeneration(TokenId id) const;

  TokenizerData::Model model() const;
  // Decoding a whole text drops one leading space (the one that encoding put there).
  bool strips_leading_space() const;
  // The chat template's source, if the model has one.
  const std::optional<std::string>& chat_template() const;
  // Covers all that Create was given, chat template included.
  const Hash128& content_hash() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);

  std::unique_ptr<const Impl> impl_;
};

}  // namespace tandem::tokenizer
