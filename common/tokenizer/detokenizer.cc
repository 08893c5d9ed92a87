#include "common/tokenizer/detokenizer.h"

#include "common/base/utf8.h"

namespace tandem::tokenizer {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, const DetokenizerOptions& options)
    : tokenizer_(&tokenizer),
      options_(options),
      strip_pending_(options.start_of_text && tokenizer.strips_leading_space()) {}

std::string Detokenizer::Append(TokenId id) {
  std::string out;
  if (options_.skip_special && tokenizer_->IsSpecial(id)) return out;
  // In a character vocabulary only byte tokens hold parts of characters; any other token ends a run
  // of them.
  if (!IsByteLevel() && !tokenizer_->IsByteToken(id)) DropTail(out);
  Emit(tokenizer_->TokenBytes(id), out);
  Strip(out);
  return out;
}

std::string Detokenizer::Flush() {
  std::string out;
  DropTail(out);
  Strip(out);
  return out;
}

bool Detokenizer::IsByteLevel() const {
  return tokenizer_->model() == TokenizerData::Model::kByteLevelBpe;
}

void Detokenizer::Emit(std::string_view bytes, std::string& out) {
  const std::string all = tail_ + std::string(bytes);
  tail_.clear();
  for (std::size_t pos = 0; pos < all.size();) {
    const Utf8Char c = ScanUtf8(all, pos);
    if (c.kind == Utf8Char::Kind::kIncomplete) {
      tail_ = all.substr(pos);
      return;
    }
    if (c.kind == Utf8Char::Kind::kValid) {
      out.append(all, pos, c.length);
    } else {
      AppendReplacements(c.length, out);
    }
    pos += c.length;
  }
}

void Detokenizer::DropTail(std::string& out) {
  if (tail_.empty()) return;
  AppendReplacements(tail_.size(), out);
  tail_.clear();
}

void Detokenizer::AppendReplacements(std::size_t bad_bytes, std::string& out) const {
  for (std::size_t i = 0; i < (IsByteLevel() ? 1 : bad_bytes); ++i) out += kReplacementCharacter;
}

void Detokenizer::Strip(std::string& out) {
  if (!strip_pending_ || out.empty()) return;
  strip_pending_ = false;
  if (out.front() == ' ') out.erase(0, 1);
}

}  // namespace tandem::tokenizer
