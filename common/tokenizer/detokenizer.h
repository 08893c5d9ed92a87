// Turns one sequence's ids into text as they come, never emitting part of a character.
//
//   Detokenizer out(tokenizer, {});
//   for (TokenId id : ids) stream << out.Append(id);
//   stream << out.Flush();
//
// The concatenation of all that it returns is what Tokenizer::Decode gives for the same ids.
// Copyable: a copy goes on from the same state. Not thread-safe. The tokenizer must outlive it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/units.h"
#include "common/tokenizer/tokenizer.h"

namespace tandem::tokenizer {

struct DetokenizerOptions {
  // Special tokens give no text.
  bool skip_special = true;
  // The ids begin a text, so a space that the encoder put in front is dropped. False: they go on
  // from a prompt.
  bool start_of_text = true;
};

class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, const DetokenizerOptions& options);

  // The text that has become certain with `id`; often empty in the middle of a character.
  std::string Append(TokenId id);
  // Ends the text: an incomplete character becomes U+FFFD. Appending may go on afterwards.
  std::string Flush();

 private:
  void Emit(std::string_view bytes, std::string& out);
  void DropTail(std::string& out);
  void Strip(std::string& out);
  // Byte-level: one U+FFFD for a broken character; character vocabularies: one for each of its
  // bytes.
  void AppendReplacements(std::size_t bad_bytes, std::string& out) const;
  bool IsByteLevel() const;

  const Tokenizer* tokenizer_;
  DetokenizerOptions options_;
  bool strip_pending_;  // nothing has been emitted yet, and a leading space is to be dropped
  std::string tail_;    // at most 3 bytes: the beginning of a character
};

}  // namespace tandem::tokenizer
