// What a tokenizer file says, whichever format said it: filled by the GGUF and the tokenizer.json
// reader, consumed by Tokenizer::Create, which validates it. Plain data; no member refers to the
// file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/units.h"

namespace tandem::tokenizer {

enum class TokenKind : std::uint8_t {
  kNormal,       // in the byte alphabet for kByteLevelBpe, with U+2581 for a space otherwise
  kByte,         // "<0xXX>", one byte
  kControl,      // special: never made from ordinary text, skipped in output; includes the unknown
                 // token
  kUserDefined,  // added, not special: its text is literal and matched anywhere
  kUnused,       // a hole in the vocabulary
};

struct Token {
  std::string text = {};
  float score = 0;  // kSpm only: higher merges first
  TokenKind kind = TokenKind::kNormal;
};

// A token matched in the text before the model sees it.
struct AddedToken {
  TokenId id;
  std::string content = {};
  bool special = false;
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool single_word = false;  // only between non-word characters
  bool normalized =
      false;  // matched after normalisation (special tokens are always matched before)
};

struct Merge {
  std::string left;
  std::string right;
};

// One stage of cutting text into pieces; each stage cuts every piece of the stage before.
struct PreTokenizerStep {
  enum class Kind : std::uint8_t {
    kIsolate,          // every match of `pattern` is a piece, and so is all between two matches
    kKeepMatches,      // every match is a piece; what lies between is dropped
    kBeforeMetaspace,  // a piece begins at each U+2581
  };
  Kind kind;
  std::string
      pattern;  // kIsolate, kKeepMatches: a regular expression of the subset in regex_split.h
};

enum class UnicodeForm : std::uint8_t { kNone, kNfc, kNfd, kNfkc, kNfkd };

// What is put in front of a stretch of text between added tokens: a space, or U+2581 with
// spaces_to_metaspace.
enum class PrefixScheme : std::uint8_t {
  kNever,
  kFirst,      // only where the stretch begins the text and does not begin with it already
  kIfMissing,  // where the stretch does not begin with it already
  kAlways,
};

struct TokenizerData {
  enum class Model : std::uint8_t {
    kByteLevelBpe,  // merges by rank over bytes (GPT-2)
    kBpe,  // merges by rank over characters, with byte fall-back (Llama-2's tokenizer.json)
    kSpm,  // merges by score over characters, with byte fall-back (GGUF "llama")
  };

  Model model = Model::kByteLevelBpe;
  std::vector<Token> tokens;  // [vocab_size], index = id
  std::vector<Merge> merges;  // kByteLevelBpe, kBpe; index = rank
  std::vector<AddedToken> added;
  bool ignore_merges = false;  // a piece that is a whole token is that token
  bool fuse_unknown = true;    // a run of unknown characters is one unknown token

  UnicodeForm form = UnicodeForm::kNone;
  bool spaces_to_metaspace = false;  // " " becomes U+2581 before the model
  PrefixScheme prefix = PrefixScheme::kNever;
  std::vector<PreTokenizerStep> pre_tokenizer;

  bool strip_leading_space = false;  // decoding a whole text drops one leading space

  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<TokenId> unknown;
  std::vector<TokenId> end_of_generation;  // eos, end of turn, … : each ends an answer
  TokenIds prefix_tokens;                  // added in front by EncodeOptions::add_special_tokens
  TokenIds suffix_tokens;                  // added behind
  std::optional<std::string> chat_template;
};

}  // namespace tandem::tokenizer
