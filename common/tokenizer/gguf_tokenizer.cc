// GGUF's tokenizer.ggml.* keys. Source: ggml's docs/gguf.md.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/formats/gguf.h"
#include "common/tokenizer/pre_tokenizers.h"
#include "common/tokenizer/tokenizer_loader.h"

namespace tandem::tokenizer {
namespace {

using formats::GgufMetadata;

StatusOr<TokenKind> KindOf(std::int64_t type) {
  switch (type) {
    case 1:
      return TokenKind::kNormal;
    case 2:  // unknown
    case 3:
      return TokenKind::kControl;
    case 4:
      return TokenKind::kUserDefined;
    case 5:
      return TokenKind::kUnused;
    case 6:
      return TokenKind::kByte;
    default:
      return InvalidArgument("token type {} is not one of 1 to 6", type);
  }
}

Status ReadTokens(const GgufMetadata& meta, TokenizerData& data) {
  TANDEM_ASSIGN_OR_RETURN(const auto tokens, meta.GetStringArray("tokenizer.ggml.tokens"));
  data.tokens.reserve(tokens.size());
  for (std::string_view text : tokens) data.tokens.push_back({std::string(text), 0, TokenKind::kNormal});
  const bool scored = data.model == TokenizerData::Model::kSpm;
  if (scored || meta.Has("tokenizer.ggml.scores")) {
    TANDEM_ASSIGN_OR_RETURN(const auto scores, meta.GetNumberArray("tokenizer.ggml.scores"));
    if (scores.size() != tokens.size()) {
      return InvalidArgument("tokenizer.ggml.scores has {} entries for {} tokens", scores.size(),
                             tokens.size());
    }
    for (std::size_t i = 0; scored && i < scores.size(); ++i) {
      data.tokens[i].score = static_cast<float>(scores.Float(i));
    }
  }
  TANDEM_ASSIGN_OR_RETURN(const auto types, meta.GetIntArray("tokenizer.ggml.token_type"));
  if (types.size() != tokens.size()) {
    return InvalidArgument("tokenizer.ggml.token_type has {} entries for {} tokens", types.size(),
                           tokens.size());
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    Token& token = data.tokens[i];
    auto kind = KindOf(types.Int(i));
    if (!kind.ok()) return Annotate(kind.status(), fmt::format("tokenizer.ggml.token_type[{}]", i));
    token.kind = *kind;
    const bool special = token.kind == TokenKind::kControl;
    if ((special || token.kind == TokenKind::kUserDefined) && !token.text.empty()) {
      data.added.push_back(
          {.id = TokenId(static_cast<std::int32_t>(i)), .content = token.text, .special = special});
    }
  }
  return OkStatus();
}

Status ReadMerges(const GgufMetadata& meta, TokenizerData& data) {
  TANDEM_ASSIGN_OR_RETURN(const auto merges, meta.GetStringArray("tokenizer.ggml.merges"));
  data.merges.reserve(merges.size());
  for (std::string_view merge : merges) {
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return InvalidArgument("tokenizer.ggml.merges[{}] is '{}'; expected two parts and a space",
                             data.merges.size(), merge);
    }
    data.merges.push_back(
        {std::string(merge.substr(0, space)), std::string(merge.substr(space + 1))});
  }
  return OkStatus();
}

StatusOr<std::optional<TokenId>> ReadId(const GgufMetadata& meta, std::string_view key,
                                        std::size_t vocabulary) {
  if (!meta.Has(key)) return std::optional<TokenId>();
  TANDEM_ASSIGN_OR_RETURN(const std::uint64_t id, meta.GetU64(key));
  if (id >= vocabulary) {
    return InvalidArgument("{} is {}, outside the vocabulary of {}", key, id, vocabulary);
  }
  return std::optional<TokenId>(TokenId(static_cast<std::int32_t>(id)));
}

Status ReadIds(const GgufMetadata& meta, bool add_bos_default, TokenizerData& data) {
  const std::size_t size = data.tokens.size();
  TANDEM_ASSIGN_OR_RETURN(data.bos, ReadId(meta, "tokenizer.ggml.bos_token_id", size));
  TANDEM_ASSIGN_OR_RETURN(data.eos, ReadId(meta, "tokenizer.ggml.eos_token_id", size));
  TANDEM_ASSIGN_OR_RETURN(data.unknown, ReadId(meta, "tokenizer.ggml.unknown_token_id", size));
  if (data.eos) data.end_of_generation.push_back(*data.eos);
  for (std::string_view key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    TANDEM_ASSIGN_OR_RETURN(const auto id, ReadId(meta, key, size));
    if (id) data.end_of_generation.push_back(*id);
  }
  constexpr std::string_view kAddBos = "tokenizer.ggml.add_bos_token";
  constexpr std::string_view kAddEos = "tokenizer.ggml.add_eos_token";
  TANDEM_ASSIGN_OR_RETURN(const bool add_bos, meta.GetBoolOr(kAddBos, add_bos_default));
  TANDEM_ASSIGN_OR_RETURN(const bool add_eos, meta.GetBoolOr(kAddEos, false));
  if ((add_bos && !data.bos && meta.Has(kAddBos)) || (add_eos && !data.eos)) {
    return InvalidArgument("{} is true, but the file names no such token",
                           add_eos && !data.eos ? kAddEos : kAddBos);
  }
  if (add_bos && data.bos) data.prefix_tokens.push_back(*data.bos);
  if (add_eos) data.suffix_tokens.push_back(*data.eos);
  return OkStatus();
}

StatusOr<TokenizerData> Read(const GgufMetadata& meta) {
  TANDEM_ASSIGN_OR_RETURN(const std::string_view model, meta.GetString("tokenizer.ggml.model"));
  TokenizerData data;
  bool add_bos_default = false;
  if (model == "gpt2") {
    TANDEM_ASSIGN_OR_RETURN(const std::string_view pre, meta.GetString("tokenizer.ggml.pre"));
    TANDEM_ASSIGN_OR_RETURN(NamedPreTokenizer named, FindPreTokenizer(pre));
    data.model = TokenizerData::Model::kByteLevelBpe;
    data.pre_tokenizer = std::move(named.steps);
    data.form = named.form;
    data.ignore_merges = named.ignore_merges;
    add_bos_default = named.add_bos;
  } else if (model == "llama") {
    data.model = TokenizerData::Model::kSpm;
    data.spaces_to_metaspace = true;
    TANDEM_ASSIGN_OR_RETURN(const bool prefix,
                            meta.GetBoolOr("tokenizer.ggml.add_space_prefix", true));
    data.prefix = prefix ? PrefixScheme::kAlways : PrefixScheme::kNever;
    data.strip_leading_space = prefix;
    data.fuse_unknown = false;
    add_bos_default = true;
  } else {
    return InvalidArgument(
        "tokenizer.ggml.model is '{}', which is not supported; known: gpt2, llama", model);
  }
  TANDEM_RETURN_IF_ERROR(ReadTokens(meta, data));
  if (data.model == TokenizerData::Model::kByteLevelBpe) {
    TANDEM_RETURN_IF_ERROR(ReadMerges(meta, data));
  }
  TANDEM_RETURN_IF_ERROR(ReadIds(meta, add_bos_default, data));
  if (meta.Has("tokenizer.chat_template")) {
    TANDEM_ASSIGN_OR_RETURN(const std::string_view source,
                            meta.GetString("tokenizer.chat_template"));
    data.chat_template = std::string(source);
  }
  return data;
}

}  // namespace

StatusOr<TokenizerData> ReadGgufTokenizer(const formats::GgufFile& file) {
  auto data = Read(file.metadata());
  if (!data.ok()) return Annotate(data.status(), file.path());
  return data;
}

StatusOr<Tokenizer> LoadTokenizerFromGguf(const formats::GgufFile& file) {
  TANDEM_ASSIGN_OR_RETURN(TokenizerData data, ReadGgufTokenizer(file));
  auto tokenizer = Tokenizer::Create(std::move(data));
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), file.path());
  return tokenizer;
}

}  // namespace tandem::tokenizer
