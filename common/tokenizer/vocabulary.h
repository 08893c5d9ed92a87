// The model part of a tokenizer: turns one piece of text into ids by merging, and ids into the
// bytes they stand for.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/tokenizer/merge_table.h"
#include "common/tokenizer/tokenizer_data.h"

namespace tandem::tokenizer {

// What SPM vocabularies write for a space: U+2581.
inline constexpr std::string_view kMetaspace = "\xE2\x96\x81";

// Immutable once built.
//
// Special tokens never result from a merge: their merges, if a file has any, are left out.
class Vocabulary {
 public:
  // Errors: InvalidArgument for a vocabulary that contradicts itself.
  static StatusOr<Vocabulary> Build(const TokenizerData& data);

  struct Scratch {
    std::vector<MergeTable::Symbol> symbols;
    MergeTable::Scratch merge;
  };
  // Appends the ids of `piece`. Requires: `piece` is UTF-8 and not empty.
  // Errors: InvalidArgument for a character that no token can express.
  Status Encode(std::string_view piece, Scratch& scratch, TokenIds& out) const;

  std::size_t size() const { return kinds_.size(); }
  // Both: requires id < size().
  std::string_view bytes(std::size_t id) const { return bytes_[id]; }
  TokenKind kind(std::size_t id) const { return kinds_[id]; }

 private:
  using Symbol = MergeTable::Symbol;
  // Token texts with their ids; the views are into TokenizerData.
  using Lookup = std::unordered_map<std::string_view, Symbol>;

  Vocabulary() = default;
  Status SetBytes(const TokenizerData& data);
  Status AddRankedMerges(const TokenizerData& data, const Lookup& ids);
  void AddScoredMerges(const TokenizerData& data, const Lookup& ids);
  // The symbol of a character, made up if only longer tokens have it; none if no token does.
  std::optional<Symbol> SymbolOf(std::string_view character, const Lookup& ids);
  Status AppendUnknown(std::string_view character, std::vector<Symbol>& out) const;
  Status AppendSymbols(std::string_view piece, std::vector<Symbol>& out) const;

  bool byte_level_ = true;
  bool fuse_unknown_ = true;
  std::vector<TokenKind> kinds_;
  std::vector<std::string> bytes_;
  std::array<Symbol, 256> byte_symbols_{};                   // -1: no such token
  absl::flat_hash_map<char32_t, Symbol> character_symbols_;  // character vocabularies
  std::vector<std::string>
      made_up_;  // symbols from size() on: characters that only longer tokens have
  std::optional<TokenId> unknown_;
  MergeTable merges_;
  absl::flat_hash_map<std::string, Symbol> whole_;  // ignore_merges: bytes of every ordinary token
};

}  // namespace tandem::tokenizer
