#include "common/tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "common/base/utf8.h"
#include "common/tokenizer/added_tokens.h"
#include "common/tokenizer/detokenizer.h"
#include "common/tokenizer/regex_split.h"
#include "common/tokenizer/unicode.h"
#include "common/tokenizer/vocabulary.h"

namespace tandem::tokenizer {
namespace {

constexpr std::size_t kMaxSteps = 32;
constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;

Hash128 HashData(const TokenizerData& data) {
  Sha256 sha;
  auto text = [&](std::string_view s) { sha.UpdateU64(s.size()).Update(s); };
  auto number = [&](auto value) { sha.UpdateU64(static_cast<std::uint64_t>(value)); };
  auto id = [&](const std::optional<TokenId>& i) { number(i ? i->value() : -1); };
  auto list = [&](const TokenIds& ids) {
    number(ids.size());
    for (TokenId i : ids) number(i.value());
  };
  text("tandem tokenizer 1");
  number(data.model);
  number(data.tokens.size());
  for (const Token& t : data.tokens) {
    text(t.text);
    text(fmt::format("{:a}", t.score));
    number(t.kind);
  }
  number(data.merges.size());
  for (const Merge& m : data.merges) {
    text(m.left);
    text(m.right);
  }
  number(data.added.size());
  for (const AddedToken& a : data.added) {
    number(a.id.value());
    text(a.content);
    number(a.special | a.lstrip << 1 | a.rstrip << 2 | a.single_word << 3 | a.normalized << 4);
  }
  number(data.ignore_merges | data.fuse_unknown << 1 | data.spaces_to_metaspace << 2 |
         data.strip_leading_space << 3);
  number(data.form);
  number(data.prefix);
  number(data.pre_tokenizer.size());
  for (const PreTokenizerStep& step : data.pre_tokenizer) {
    number(step.kind);
    text(step.pattern);
  }
  id(data.bos);
  id(data.eos);
  id(data.unknown);
  list(data.end_of_generation);
  list(data.prefix_tokens);
  list(data.suffix_tokens);
  number(data.chat_template.has_value());
  text(data.chat_template.value_or(""));
  return sha.Finish128();
}

Status CheckIds(const TokenizerData& data) {
  const auto size = static_cast<std::int64_t>(data.tokens.size());
  auto check = [&](std::string_view what, TokenId id) {
    if (id.value() >= 0 && id.value() < size) return OkStatus();
    return InvalidArgument("tokenizer: {} is {}, outside the vocabulary of {}", what, id.value(),
                           size);
  };
  if (data.bos) TANDEM_RETURN_IF_ERROR(check("bos", *data.bos));
  if (data.eos) TANDEM_RETURN_IF_ERROR(check("eos", *data.eos));
  if (data.unknown) TANDEM_RETURN_IF_ERROR(check("the unknown token", *data.unknown));
  for (TokenId id : data.end_of_generation) TANDEM_RETURN_IF_ERROR(check("an eos id", id));
  for (TokenId id : data.prefix_tokens) TANDEM_RETURN_IF_ERROR(check("a prefix token", id));
  for (TokenId id : data.suffix_tokens) TANDEM_RETURN_IF_ERROR(check("a suffix token", id));
  for (const AddedToken& added : data.added) {
    TANDEM_RETURN_IF_ERROR(check("an added token", added.id));
    if (added.content.empty()) {
      return InvalidArgument("tokenizer: added token {} is empty", added.id.value());
    }
    if (added.normalized && !added.special &&
        (data.spaces_to_metaspace || data.form != UnicodeForm::kNone) &&
        FindInvalidUtf8(added.content)) {
      return InvalidArgument("tokenizer: added token {} is not UTF-8", added.id.value());
    }
    if (added.normalized && !added.special && data.spaces_to_metaspace) {
      return InvalidArgument(
          "tokenizer: added token {} '{}' is matched after normalisation, which is not supported "
          "together with U+2581 for spaces",
          added.id.value(), added.content);
    }
  }
  return OkStatus();
}

}  // namespace

struct Tokenizer::Impl {
  struct Step {
    PreTokenizerStep::Kind kind;
    std::optional<RegexSplitter> regex;
  };
  // What one call needs.
  struct Scratch {
    RegexSplitter::Scratch regex;
    Vocabulary::Scratch vocabulary;
    TokenIds ids;
  };

  Impl(TokenizerData d, Vocabulary v, AddedTokenMatcher raw, AddedTokenMatcher normalized)
      : data(std::move(d)),
        vocabulary(std::move(v)),
        raw_added(std::move(raw)),
        normalized_added(std::move(normalized)) {}

  Status EncodeStretch(std::string_view raw, bool at_start, Scratch& scratch) const;
  Status EncodeNormalized(std::string_view text, bool at_start, Scratch& scratch) const;
  Status Cut(std::size_t step, std::string_view piece, Scratch& scratch) const;

  TokenizerData data;  // without tokens and merges, once built
  Vocabulary vocabulary;
  AddedTokenMatcher raw_added;         // matched in the text as it came
  AddedTokenMatcher normalized_added;  // matched after normalisation
  std::vector<Step> steps;
  Hash128 hash;
};

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

StatusOr<Tokenizer> Tokenizer::Create(TokenizerData data) {
  std::sort(data.end_of_generation.begin(), data.end_of_generation.end());
  auto last = std::unique(data.end_of_generation.begin(), data.end_of_generation.end());
  data.end_of_generation.erase(last, data.end_of_generation.end());
  TANDEM_RETURN_IF_ERROR(CheckIds(data));
  TANDEM_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Build(data));
  if (data.pre_tokenizer.size() > kMaxSteps) {
    return InvalidArgument("tokenizer: {} pre-tokenizer steps; at most {}",
                           data.pre_tokenizer.size(), kMaxSteps);
  }
  std::vector<Impl::Step> steps;
  for (const PreTokenizerStep& step : data.pre_tokenizer) {
    Impl::Step built{step.kind, std::nullopt};
    if (step.kind != PreTokenizerStep::Kind::kBeforeMetaspace) {
      const auto between = step.kind == PreTokenizerStep::Kind::kIsolate
                               ? RegexSplitter::Between::kKeep
                               : RegexSplitter::Between::kDrop;
      TANDEM_ASSIGN_OR_RETURN(built.regex, RegexSplitter::Compile(step.pattern, between));
    }
    steps.push_back(std::move(built));
  }
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  for (const AddedToken& added : data.added) {
    // Special tokens need the marks of the text as it came, so they are matched there even if
    // `normalized`.
    (added.special || !added.normalized ? raw : normalized).push_back(added);
  }
  for (AddedToken& added : normalized) added.content = Normalize(added.content, data.form);
  const Hash128 hash = HashData(data);
  data.tokens = {};
  data.merges = {};
  auto impl = std::make_unique<Impl>(std::move(data), std::move(vocabulary),
                                     AddedTokenMatcher(std::move(raw)),
                                     AddedTokenMatcher(std::move(normalized)));
  impl->steps = std::move(steps);
  impl->hash = hash;
  return Tokenizer(std::move(impl));
}

StatusOr<TokenIds> Tokenizer::Encode(const MarkedText& text, const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes) {
    return InvalidArgument("text of {} bytes; at most {}", text.size(), kMaxTextBytes);
  }
  if (auto bad = FindInvalidUtf8(text.text())) {
    return InvalidArgument("the text is not UTF-8 at byte {}", *bad);
  }
  const Impl& impl = *impl_;
  Impl::Scratch scratch;
  if (options.add_special_tokens) scratch.ids = impl.data.prefix_tokens;
  auto allow = [&](const AddedToken& token, std::size_t begin, std::size_t end) {
    return !token.special || (options.parse_special && !text.AnyFromUser(begin, end));
  };
  const std::string_view all = text.text();
  std::size_t done = 0;
  for (const auto& match : impl.raw_added.FindAll(all, allow)) {
    TANDEM_RETURN_IF_ERROR(
        impl.EncodeStretch(all.substr(done, match.begin - done), done == 0, scratch));
    scratch.ids.push_back(match.id);
    done = match.end;
  }
  TANDEM_RETURN_IF_ERROR(impl.EncodeStretch(all.substr(done), done == 0, scratch));
  if (options.add_special_tokens) {
    scratch.ids.insert(scratch.ids.end(), impl.data.suffix_tokens.begin(),
                       impl.data.suffix_tokens.end());
  }
  return std::move(scratch.ids);
}

Status Tokenizer::Impl::EncodeStretch(std::string_view raw, bool at_start, Scratch& scratch) const {
  if (raw.empty()) return OkStatus();
  if (data.form == UnicodeForm::kNone && normalized_added.empty()) {
    return EncodeNormalized(raw, at_start, scratch);
  }
  const std::string text = Normalize(raw, data.form);
  const std::string_view all = text;
  std::size_t done = 0;
  auto allow = [](const AddedToken&, std::size_t, std::size_t) { return true; };
  for (const auto& match : normalized_added.FindAll(all, allow)) {
    TANDEM_RETURN_IF_ERROR(
        EncodeNormalized(all.substr(done, match.begin - done), at_start && done == 0, scratch));
    scratch.ids.push_back(match.id);
    done = match.end;
  }
  return EncodeNormalized(all.substr(done), at_start && done == 0, scratch);
}

Status Tokenizer::Impl::EncodeNormalized(std::string_view text, bool at_start,
                                         Scratch& scratch) const {
  if (text.empty()) return OkStatus();
  const std::string_view space = data.spaces_to_metaspace ? kMetaspace : " ";
  const bool has_space = text.starts_with(' ') || text.starts_with(space);
  const bool prefixed = data.prefix == PrefixScheme::kAlways ||
                        (data.prefix == PrefixScheme::kIfMissing && !has_space) ||
                        (data.prefix == PrefixScheme::kFirst && at_start && !has_space);
  if (!prefixed && !data.spaces_to_metaspace) return Cut(0, text, scratch);
  std::string changed(prefixed ? space : "");
  changed.reserve(text.size() + 16);
  for (char c : text) {
    if (c == ' ') {
      changed += space;
    } else {
      changed.push_back(c);
    }
  }
  return Cut(0, changed, scratch);
}

Status Tokenizer::Impl::Cut(std::size_t step, std::string_view piece, Scratch& scratch) const {
  if (step == steps.size()) return vocabulary.Encode(piece, scratch.vocabulary, scratch.ids);
  if (steps[step].kind == PreTokenizerStep::Kind::kBeforeMetaspace) {
    while (!piece.empty()) {
      const std::size_t end = std::min(piece.find(kMetaspace, 1), piece.size());
      TANDEM_RETURN_IF_ERROR(Cut(step + 1, piece.substr(0, end), scratch));
      piece.remove_prefix(end);
    }
    return OkStatus();
  }
  return steps[step].regex->Split(
      piece, scratch.regex, [&](std::string_view part) { return Cut(step + 1, part, scratch); });
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool skip_special) const {
  Detokenizer detokenizer(*this, {.skip_special = skip_special, .start_of_text = true});
  std::string out;
  for (TokenId id : ids) out += detokenizer.Append(id);
  out += detokenizer.Flush();
  return out;
}

TokenCount Tokenizer::vocab_size() const {
  return TokenCount(static_cast<std::int32_t>(impl_->vocabulary.size()));
}

std::string_view Tokenizer::TokenBytes(TokenId id) const {
  if (id.value() < 0 || id.value() >= vocab_size().value()) return {};
  return impl_->vocabulary.bytes(static_cast<std::size_t>(id.value()));
}

bool Tokenizer::IsSpecial(TokenId id) const {
  if (id.value() < 0 || id.value() >= vocab_size().value()) return false;
  return impl_->vocabulary.kind(static_cast<std::size_t>(id.value())) == TokenKind::kControl;
}

bool Tokenizer::IsByteToken(TokenId id) const {
  if (id.value() < 0 || id.value() >= vocab_size().value()) return false;
  return impl_->vocabulary.kind(static_cast<std::size_t>(id.value())) == TokenKind::kByte;
}

std::optional<TokenId> Tokenizer::bos() const { return impl_->data.bos; }
std::optional<TokenId> Tokenizer::eos() const { return impl_->data.eos; }

const std::vector<TokenId>& Tokenizer::end_of_generation() const {
  return impl_->data.end_of_generation;
}

bool Tokenizer::IsEndOfGeneration(TokenId id) const {
  const auto& ids = impl_->data.end_of_generation;
  return std::binary_search(ids.begin(), ids.end(), id);
}

TokenizerData::Model Tokenizer::model() const { return impl_->data.model; }
bool Tokenizer::strips_leading_space() const { return impl_->data.strip_leading_space; }
const std::optional<std::string>& Tokenizer::chat_template() const {
  return impl_->data.chat_template;
}
const Hash128& Tokenizer::content_hash() const { return impl_->hash; }

}  // namespace tandem::tokenizer
