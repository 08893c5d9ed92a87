#include "common/tokenizer/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/utf8.h"
#include "common/tokenizer/byte_alphabet.h"

namespace tandem::tokenizer {
namespace {

constexpr std::size_t kMaxScoredBytes =
    512;  // splitting a longer token everywhere would cost too much
constexpr std::size_t kMaxVocabulary = 16'000'000;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// The byte of "<0xXX>".
std::optional<std::uint8_t> ParseByteToken(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return std::nullopt;
  const int high = HexDigit(text[3]);
  const int low = HexDigit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<std::uint8_t>(high * 16 + low);
}

std::string MetaspaceToSpace(std::string_view text) {
  std::string out;
  for (std::size_t pos = 0; pos < text.size();) {
    if (text.substr(pos, kMetaspace.size()) == kMetaspace) {
      out.push_back(' ');
      pos += kMetaspace.size();
    } else {
      out.push_back(text[pos++]);
    }
  }
  return out;
}

// A token that ordinary text may become.
bool IsOrdinary(TokenKind kind) {
  return kind == TokenKind::kNormal || kind == TokenKind::kUserDefined;
}

}  // namespace

StatusOr<Vocabulary> Vocabulary::Build(const TokenizerData& data) {
  Vocabulary out;
  if (data.tokens.empty() || data.tokens.size() > kMaxVocabulary) {
    return InvalidArgument("tokenizer: {} tokens; expected 1 to {}", data.tokens.size(),
                           kMaxVocabulary);
  }
  out.byte_level_ = data.model == TokenizerData::Model::kByteLevelBpe;
  out.fuse_unknown_ = data.fuse_unknown;
  out.unknown_ = data.unknown;
  out.byte_symbols_.fill(-1);
  TANDEM_RETURN_IF_ERROR(out.SetBytes(data));

  Lookup ids;
  ids.reserve(data.tokens.size());
  for (std::size_t id = 0; id < data.tokens.size(); ++id) {
    if (IsOrdinary(data.tokens[id].kind)) ids[data.tokens[id].text] = static_cast<Symbol>(id);
  }
  if (!out.byte_level_) {
    for (const auto& [text, id] : ids) {
      if (text.empty()) continue;
      const Utf8Char c = ScanUtf8(text, 0);
      if (c.length == text.size()) out.character_symbols_[c.code] = id;
    }
  }
  if (data.model == TokenizerData::Model::kSpm) {
    out.AddScoredMerges(data, ids);
  } else {
    TANDEM_RETURN_IF_ERROR(out.AddRankedMerges(data, ids));
  }
  return out;
}

Status Vocabulary::SetBytes(const TokenizerData& data) {
  kinds_.reserve(data.tokens.size());
  bytes_.reserve(data.tokens.size());
  const bool scored = data.model == TokenizerData::Model::kSpm;
  for (std::size_t id = 0; id < data.tokens.size(); ++id) {
    const Token& token = data.tokens[id];
    kinds_.push_back(token.kind);
    if (auto bad = FindInvalidUtf8(token.text)) {
      return InvalidArgument("tokenizer: token {} is not UTF-8 at its byte {}", id, *bad);
    }
    const auto symbol = static_cast<Symbol>(id);
    switch (token.kind) {
      case TokenKind::kControl:
      case TokenKind::kUserDefined:
        bytes_.push_back(token.text);
        break;
      case TokenKind::kUnused:
        bytes_.emplace_back();
        break;
      case TokenKind::kByte: {
        const auto byte = ParseByteToken(token.text);
        if (!byte || byte_level_) {
          return InvalidArgument(
              "tokenizer: token {} '{}' is marked as a byte but is not '<0xXX>'{}", id, token.text,
              byte_level_ ? " of a character vocabulary" : "");
        }
        byte_symbols_[*byte] = symbol;
        bytes_.emplace_back(1, static_cast<char>(*byte));
        break;
      }
      case TokenKind::kNormal: {
        if (!byte_level_) {
          bytes_.push_back(MetaspaceToSpace(token.text));
          break;
        }
        std::string bytes = AlphabetToBytes(token.text).value_or(token.text);
        if (bytes.size() == 1) byte_symbols_[static_cast<std::uint8_t>(bytes[0])] = symbol;
        if (data.ignore_merges && !bytes.empty()) whole_[bytes] = symbol;
        bytes_.push_back(std::move(bytes));
        break;
      }
    }
    if (scored && !std::isfinite(token.score)) {
      return InvalidArgument("tokenizer: token {} has the score {}", id, token.score);
    }
    if (scored && IsOrdinary(token.kind) && token.text.size() > kMaxScoredBytes) {
      return InvalidArgument("tokenizer: token {} has {} bytes; at most {} in a scored vocabulary",
                             id, token.text.size(), kMaxScoredBytes);
    }
  }
  return OkStatus();
}

Status Vocabulary::AddRankedMerges(const TokenizerData& data, const Lookup& ids) {
  Lookup special;
  for (std::size_t id = 0; id < data.tokens.size(); ++id) {
    if (!IsOrdinary(data.tokens[id].kind)) special[data.tokens[id].text] = -1;
  }
  merges_.Reserve(data.merges.size());
  for (std::size_t rank = 0; rank < data.merges.size(); ++rank) {
    const Merge& merge = data.merges[rank];
    const std::string whole = merge.left + merge.right;
    std::array<Symbol, 3> symbols{};
    bool has_special = false;
    const std::array<std::string_view, 3> texts = {merge.left, merge.right, whole};
    for (std::size_t i = 0; i < 3; ++i) {
      if (auto it = ids.find(texts[i]); it != ids.end()) {
        symbols[i] = it->second;
      } else if (special.contains(texts[i])) {
        has_special = true;
      } else {
        return InvalidArgument("tokenizer: merge {} ('{}' + '{}') needs '{}', which is no token",
                               rank, merge.left, merge.right, texts[i]);
      }
    }
    if (has_special) continue;
    merges_.Add(symbols[0], symbols[1], symbols[2], static_cast<std::uint32_t>(rank));
  }
  return OkStatus();
}

std::optional<Vocabulary::Symbol> Vocabulary::SymbolOf(std::string_view text, const Lookup& ids) {
  if (auto it = ids.find(text); it != ids.end()) return it->second;
  const Utf8Char c = ScanUtf8(text, 0);
  if (c.length != text.size()) return std::nullopt;
  auto [it, added] =
      character_symbols_.try_emplace(c.code, static_cast<Symbol>(size() + made_up_.size()));
  if (added) made_up_.emplace_back(text);
  return it->second;
}

// SPM merges whichever two neighbours make the token of the highest score; so every way to cut a
// token in two is a merge, ranked by the token's score.
void Vocabulary::AddScoredMerges(const TokenizerData& data, const Lookup& ids) {
  std::vector<float> scores;
  for (const auto& [text, id] : ids)
    scores.push_back(data.tokens[static_cast<std::size_t>(id)].score);
  std::sort(scores.begin(), scores.end(), std::greater<>{});
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  for (const Token& token : data.tokens) {
    const auto whole = ids.find(token.text);
    if (whole == ids.end() || !IsOrdinary(token.kind)) continue;
    const float score = data.tokens[static_cast<std::size_t>(whole->second)].score;
    const auto rank = static_cast<std::uint32_t>(
        std::lower_bound(scores.begin(), scores.end(), score, std::greater<>{}) - scores.begin());
    const std::string_view text = token.text;
    for (std::size_t cut = 0; cut < text.size();) {
      cut += ScanUtf8(text, cut).length;
      if (cut >= text.size()) break;
      const auto left = SymbolOf(text.substr(0, cut), ids);
      if (!left) continue;
      const auto right = SymbolOf(text.substr(cut), ids);
      if (right) merges_.Add(*left, *right, whole->second, rank);
    }
  }
}

Status Vocabulary::AppendUnknown(std::string_view character, std::vector<Symbol>& out) const {
  const bool all_bytes = std::all_of(character.begin(), character.end(), [&](char c) {
    return byte_symbols_[static_cast<std::uint8_t>(c)] >= 0;
  });
  if (all_bytes) {
    for (char c : character) out.push_back(byte_symbols_[static_cast<std::uint8_t>(c)]);
    return OkStatus();
  }
  if (!unknown_) {
    return InvalidArgument("the vocabulary has no token for the character '{}'", character);
  }
  if (fuse_unknown_ && !out.empty() && out.back() == unknown_->value()) return OkStatus();
  out.push_back(unknown_->value());
  return OkStatus();
}

Status Vocabulary::AppendSymbols(std::string_view piece, std::vector<Symbol>& out) const {
  if (byte_level_) {
    for (char c : piece) {
      const auto byte = static_cast<std::uint8_t>(c);
      if (byte_symbols_[byte] >= 0) {
        out.push_back(byte_symbols_[byte]);
      } else if (unknown_) {
        out.push_back(unknown_->value());
      } else {
        return InvalidArgument("the vocabulary has no token for the byte {:#04x}", byte);
      }
    }
    return OkStatus();
  }
  for (std::size_t pos = 0; pos < piece.size();) {
    const Utf8Char c = ScanUtf8(piece, pos);
    if (auto it = character_symbols_.find(c.code); it != character_symbols_.end()) {
      out.push_back(it->second);
    } else {
      TANDEM_RETURN_IF_ERROR(AppendUnknown(piece.substr(pos, c.length), out));
    }
    pos += c.length;
  }
  return OkStatus();
}

Status Vocabulary::Encode(std::string_view piece, Scratch& scratch, TokenIds& out) const {
  if (!whole_.empty()) {
    auto it = whole_.find(std::string(piece));
    if (it != whole_.end()) {
      out.push_back(TokenId(it->second));
      return OkStatus();
    }
  }
  scratch.symbols.clear();
  TANDEM_RETURN_IF_ERROR(AppendSymbols(piece, scratch.symbols));
  merges_.Merge(scratch.symbols, scratch.merge);
  const auto vocabulary = static_cast<Symbol>(size());
  for (Symbol symbol : scratch.symbols) {
    if (symbol < vocabulary) {
      out.push_back(TokenId(symbol));
      continue;
    }
    std::vector<Symbol> fallback;
    TANDEM_RETURN_IF_ERROR(
        AppendUnknown(made_up_[static_cast<std::size_t>(symbol - vocabulary)], fallback));
    for (Symbol s : fallback) out.push_back(TokenId(s));
  }
  return OkStatus();
}

}  // namespace tandem::tokenizer
