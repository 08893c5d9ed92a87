#include "common/tokenizer/json_pipeline.h"

#include <functional>
#include <optional>
#include <utility>

#include "common/tokenizer/pre_tokenizers.h"
#include "common/tokenizer/vocabulary.h"

namespace tandem::tokenizer {
namespace {

namespace json = boost::json;

constexpr int kMaxDepth = 16;

std::string_view ToView(const json::string& s) { return {s.data(), s.size()}; }

using Visit = std::function<Status(std::string_view type, const json::object& stage)>;

// Calls `visit` for a stage, or for each member of a Sequence (`list` is its key), nested or not.
Status Walk(const json::value& value, std::string_view list, int depth, const Visit& visit) {
  if (!value.is_object() || depth > kMaxDepth) return InvalidArgument("expected an object");
  const json::object& stage = value.get_object();
  TANDEM_ASSIGN_OR_RETURN(const std::string type, JsonString(stage, "type"));
  if (type != "Sequence") return visit(type, stage);
  const json::value* items = JsonMember(stage, list);
  if (items == nullptr || !items->is_array()) {
    return InvalidArgument("Sequence without a list '{}'", list);
  }
  for (const json::value& item : items->get_array()) {
    TANDEM_RETURN_IF_ERROR(Walk(item, list, depth + 1, visit));
  }
  return OkStatus();
}

Status WalkMember(const json::object& file, std::string_view key, std::string_view list,
                  const Visit& visit) {
  const json::value* value = JsonMember(file, key);
  if (value == nullptr) return OkStatus();
  Status status = Walk(*value, list, 0, visit);
  return status.ok() ? status : Annotate(status, fmt::format("tokenizer.json: {}", key));
}

Status Unsupported(std::string_view type, std::string_view detail = "") {
  return InvalidArgument("'{}'{}{} is not supported", type, detail.empty() ? "" : " with ", detail);
}

std::optional<UnicodeForm> FormOf(std::string_view type) {
  if (type == "NFC") return UnicodeForm::kNfc;
  if (type == "NFD") return UnicodeForm::kNfd;
  if (type == "NFKC") return UnicodeForm::kNfkc;
  if (type == "NFKD") return UnicodeForm::kNfkd;
  return std::nullopt;
}

// {"String": …} or {"Regex": …}
struct Pattern {
  bool is_regex;
  std::string text;
};
StatusOr<Pattern> ReadPattern(const json::object& stage) {
  const json::value* value = JsonMember(stage, "pattern");
  if (value != nullptr && value->is_object()) {
    for (std::string_view key : {"String", "Regex"}) {
      const json::value* text = JsonMember(value->get_object(), key);
      if (text != nullptr && text->is_string()) {
        return Pattern{key == "Regex", std::string(ToView(text->get_string()))};
      }
    }
  }
  return InvalidArgument("pattern: expected {{\"String\": …}} or {{\"Regex\": …}}");
}

std::string EscapeForRegex(std::string_view text) {
  std::string out;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte <= ' ' || byte >= 0x7F || (c >= '0' && c <= '9') ||
                       (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!plain) out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

StatusOr<PreTokenizerStep> ReadSplit(const json::object& stage) {
  TANDEM_ASSIGN_OR_RETURN(Pattern pattern, ReadPattern(stage));
  TANDEM_ASSIGN_OR_RETURN(const std::string behavior, JsonString(stage, "behavior"));
  TANDEM_ASSIGN_OR_RETURN(const bool invert, JsonBoolOr(stage, "invert", false));
  PreTokenizerStep step;
  if (behavior == "Isolated") {  // matches and what lies between are pieces alike, inverted or not
    step.kind = PreTokenizerStep::Kind::kIsolate;
  } else if (behavior == "Removed" && invert) {
    step.kind = PreTokenizerStep::Kind::kKeepMatches;
  } else {
    return Unsupported("Split",
                       fmt::format("behavior '{}'{}", behavior, invert ? ", inverted" : ""));
  }
  step.pattern = pattern.is_regex ? std::move(pattern.text) : EscapeForRegex(pattern.text);
  if (step.pattern.empty()) return Unsupported("Split", "an empty pattern");
  return step;
}

Status ReadMetaspace(const json::object& stage, TokenizerData& data) {
  if (!data.pre_tokenizer.empty()) return Unsupported("Metaspace", "a stage before it");
  if (data.spaces_to_metaspace)
    return Unsupported("Metaspace", "a normalizer that replaces spaces");
  TANDEM_ASSIGN_OR_RETURN(const std::string replacement, JsonString(stage, "replacement"));
  if (replacement != kMetaspace) return Unsupported("Metaspace", "replacement " + replacement);
  TANDEM_ASSIGN_OR_RETURN(const bool legacy, JsonBoolOr(stage, "add_prefix_space", true));
  TANDEM_ASSIGN_OR_RETURN(const std::string scheme,
                          JsonStringOr(stage, "prepend_scheme", legacy ? "always" : "never"));
  if (scheme == "always") {
    data.prefix = PrefixScheme::kIfMissing;
  } else if (scheme == "first") {
    data.prefix = PrefixScheme::kFirst;
  } else if (scheme != "never") {
    return Unsupported("Metaspace", fmt::format("prepend_scheme '{}'", scheme));
  }
  data.spaces_to_metaspace = true;
  TANDEM_ASSIGN_OR_RETURN(const bool split, JsonBoolOr(stage, "split", true));
  if (split) data.pre_tokenizer.push_back({PreTokenizerStep::Kind::kBeforeMetaspace, ""});
  return OkStatus();
}

Status ReadByteLevel(const json::object& stage, TokenizerData& data) {
  TANDEM_ASSIGN_OR_RETURN(const bool prefix, JsonBoolOr(stage, "add_prefix_space", true));
  TANDEM_ASSIGN_OR_RETURN(const bool regex, JsonBoolOr(stage, "use_regex", true));
  if (prefix) {
    if (!data.pre_tokenizer.empty()) return Unsupported("ByteLevel", "a prefix space here");
    data.prefix = PrefixScheme::kIfMissing;
  }
  if (regex) {
    data.pre_tokenizer.push_back({PreTokenizerStep::Kind::kIsolate, std::string(Gpt2Pattern())});
  }
  return OkStatus();
}

}  // namespace

const json::value* JsonMember(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(json::string_view(key.data(), key.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

StatusOr<bool> JsonBoolOr(const json::object& object, std::string_view key, bool fallback) {
  const json::value* value = JsonMember(object, key);
  if (value == nullptr) return fallback;
  if (!value->is_bool()) return InvalidArgument("'{}' is not true or false", key);
  return value->get_bool();
}

StatusOr<std::string> JsonStringOr(const json::object& object, std::string_view key,
                                   std::string_view fallback) {
  const json::value* value = JsonMember(object, key);
  if (value == nullptr) return std::string(fallback);
  if (!value->is_string()) return InvalidArgument("'{}' is not a string", key);
  return std::string(ToView(value->get_string()));
}

StatusOr<std::string> JsonString(const json::object& object, std::string_view key) {
  if (JsonMember(object, key) == nullptr) return InvalidArgument("'{}' is missing", key);
  return JsonStringOr(object, key, "");
}

Status ReadNormalizer(const json::object& file, TokenizerData& data) {
  Status status = WalkMember(
      file, "normalizer", "normalizers", [&](std::string_view type, const json::object& stage) {
        if (auto form = FormOf(type)) {
          if (data.form != UnicodeForm::kNone || data.prefix != PrefixScheme::kNever ||
              data.spaces_to_metaspace) {
            return Unsupported(type, "a normalizer before it");
          }
          data.form = *form;
          return OkStatus();
        }
        if (type == "Prepend") {
          TANDEM_ASSIGN_OR_RETURN(const std::string prepend, JsonString(stage, "prepend"));
          if (prepend != kMetaspace) return Unsupported(type, fmt::format("'{}'", prepend));
          data.prefix = PrefixScheme::kAlways;
          return OkStatus();
        }
        if (type == "Replace") {
          TANDEM_ASSIGN_OR_RETURN(const Pattern pattern, ReadPattern(stage));
          TANDEM_ASSIGN_OR_RETURN(const std::string content, JsonString(stage, "content"));
          if (pattern.is_regex || pattern.text != " " || content != kMetaspace) {
            return Unsupported(type,
                               fmt::format("pattern '{}', content '{}'", pattern.text, content));
          }
          data.spaces_to_metaspace = true;
          return OkStatus();
        }
        return Unsupported(type);
      });
  TANDEM_RETURN_IF_ERROR(status);
  if (data.prefix == PrefixScheme::kAlways && !data.spaces_to_metaspace) {
    return InvalidArgument(
        "tokenizer.json: normalizer: 'Prepend' without 'Replace' is not supported");
  }
  return OkStatus();
}

Status ReadPreTokenizer(const json::object& file, TokenizerData& data) {
  bool byte_level = false;
  Status status = WalkMember(
      file, "pre_tokenizer", "pretokenizers",
      [&](std::string_view type, const json::object& stage) -> Status {
        if (byte_level) return Unsupported(type, "ByteLevel before it");
        if (type == "ByteLevel") {
          if (data.spaces_to_metaspace) return Unsupported(type, "U+2581 for spaces");
          byte_level = true;
          return ReadByteLevel(stage, data);
        }
        if (type == "Metaspace") return ReadMetaspace(stage, data);
        if (type == "Split") {
          TANDEM_ASSIGN_OR_RETURN(PreTokenizerStep step, ReadSplit(stage));
          data.pre_tokenizer.push_back(std::move(step));
          return OkStatus();
        }
        if (type == "Digits") {
          TANDEM_ASSIGN_OR_RETURN(const bool single, JsonBoolOr(stage, "individual_digits", false));
          data.pre_tokenizer.push_back(
              {PreTokenizerStep::Kind::kIsolate, single ? R"(\p{N})" : R"(\p{N}+)"});
          return OkStatus();
        }
        return Unsupported(type);
      });
  data.model = byte_level ? TokenizerData::Model::kByteLevelBpe : TokenizerData::Model::kBpe;
  return status;
}

Status ReadDecoder(const json::object& file, TokenizerData& data) {
  const bool byte_level = data.model == TokenizerData::Model::kByteLevelBpe;
  bool decodes = false;  // turns the vocabulary's writing back into text
  Status status = WalkMember(
      file, "decoder", "decoders", [&](std::string_view type, const json::object& stage) -> Status {
        if (type == "ByteLevel" && byte_level) {
          decodes = true;
          return OkStatus();
        }
        if (byte_level) return Unsupported(type, "a byte-level vocabulary");
        if (type == "ByteFallback" || type == "Fuse") return OkStatus();
        if (type == "Replace") {
          TANDEM_ASSIGN_OR_RETURN(const Pattern pattern, ReadPattern(stage));
          TANDEM_ASSIGN_OR_RETURN(const std::string content, JsonString(stage, "content"));
          if (pattern.is_regex || pattern.text != kMetaspace || content != " ") {
            return Unsupported(type,
                               fmt::format("pattern '{}', content '{}'", pattern.text, content));
          }
          decodes = true;
          return OkStatus();
        }
        if (type == "Strip") {
          TANDEM_ASSIGN_OR_RETURN(const std::string content, JsonString(stage, "content"));
          const json::value* start = JsonMember(stage, "start");
          const json::value* stop = JsonMember(stage, "stop");
          if (content != " " || start == nullptr || *start != 1 ||
              (stop != nullptr && *stop != 0)) {
            return Unsupported(type, "anything but one leading space");
          }
          data.strip_leading_space = true;
          return OkStatus();
        }
        if (type == "Metaspace") {
          TANDEM_ASSIGN_OR_RETURN(const std::string replacement, JsonString(stage, "replacement"));
          TANDEM_ASSIGN_OR_RETURN(const bool legacy, JsonBoolOr(stage, "add_prefix_space", true));
          TANDEM_ASSIGN_OR_RETURN(
              const std::string scheme,
              JsonStringOr(stage, "prepend_scheme", legacy ? "always" : "never"));
          if (replacement != kMetaspace) return Unsupported(type, "replacement " + replacement);
          data.strip_leading_space = scheme != "never";
          decodes = true;
          return OkStatus();
        }
        return Unsupported(type);
      });
  TANDEM_RETURN_IF_ERROR(status);
  if (!decodes) {
    return InvalidArgument("tokenizer.json: decoder: none that fits a {} vocabulary",
                           byte_level ? "byte-level" : "U+2581");
  }
  return OkStatus();
}

Status ReadPostProcessor(const json::object& file, TokenizerData& data) {
  return WalkMember(
      file, "post_processor", "processors",
      [&](std::string_view type, const json::object& stage) -> Status {
        if (type == "ByteLevel") return OkStatus();  // moves offsets, not ids
        if (type != "TemplateProcessing") return Unsupported(type);
        const json::value* single = JsonMember(stage, "single");
        const json::value* special = JsonMember(stage, "special_tokens");
        if (single == nullptr || !single->is_array()) return Unsupported(type, "no list 'single'");
        bool seen_text = false;
        for (const json::value& part : single->get_array()) {
          if (!part.is_object()) return Unsupported(type, "a part that is no object");
          if (part.get_object().contains("Sequence")) {
            if (seen_text) return Unsupported(type, "two sequences");
            seen_text = true;
            continue;
          }
          const json::value* token = JsonMember(part.get_object(), "SpecialToken");
          if (token == nullptr || !token->is_object()) return Unsupported(type, "an unknown part");
          TANDEM_ASSIGN_OR_RETURN(const std::string name, JsonString(token->get_object(), "id"));
          const json::value* entry = special != nullptr && special->is_object()
                                         ? JsonMember(special->get_object(), name)
                                         : nullptr;
          const json::value* ids = entry != nullptr && entry->is_object()
                                       ? JsonMember(entry->get_object(), "ids")
                                       : nullptr;
          if (ids == nullptr || !ids->is_array()) {
            return InvalidArgument("TemplateProcessing: no ids for the special token '{}'", name);
          }
          for (const json::value& id : ids->get_array()) {
            if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() > INT32_MAX) {
              return InvalidArgument("TemplateProcessing: bad id of the special token '{}'", name);
            }
            (seen_text ? data.suffix_tokens : data.prefix_tokens)
                .push_back(TokenId(static_cast<std::int32_t>(id.get_int64())));
          }
        }
        return OkStatus();
      });
}

}  // namespace tandem::tokenizer
