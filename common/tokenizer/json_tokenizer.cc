// tokenizer.json and the files beside it. Source: huggingface/tokenizers, tokenizers/src.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "common/formats/json_file.h"
#include "common/formats/mapped_file.h"
#include "common/tokenizer/json_pipeline.h"
#include "common/tokenizer/tokenizer_loader.h"

namespace tandem::tokenizer {
namespace {

namespace json = boost::json;

constexpr std::int64_t kMaxHoles = 65536;  // ids without a token

std::string ToString(json::string_view s) { return std::string(s.data(), s.size()); }

StatusOr<json::object> ParseObject(std::string_view name, std::string_view text) {
  TANDEM_ASSIGN_OR_RETURN(json::value value, formats::ParseJson(name, text));
  if (!value.is_object()) return InvalidArgument("{}: expected an object", name);
  return std::move(value.get_object());
}

class Reader {
 public:
  StatusOr<TokenizerData> Run(const TokenizerFiles& files) {
    TANDEM_ASSIGN_OR_RETURN(const json::object file,
                            ParseObject("tokenizer.json", files.tokenizer_json));
    TANDEM_RETURN_IF_ERROR(ReadNormalizer(file, data_));
    TANDEM_RETURN_IF_ERROR(ReadPreTokenizer(file, data_));
    TANDEM_RETURN_IF_ERROR(ReadDecoder(file, data_));
    TANDEM_RETURN_IF_ERROR(ReadPostProcessor(file, data_));
    Status model = ReadModel(file);
    if (!model.ok()) return Annotate(model, "tokenizer.json: model");
    Status added = ReadAddedTokens(file);
    if (!added.ok()) return Annotate(added, "tokenizer.json: added_tokens");
    Status config = ReadConfig(files);
    if (!config.ok()) return Annotate(config, "tokenizer_config.json");
    TANDEM_RETURN_IF_ERROR(ReadEosIds(files));
    return std::move(data_);
  }

 private:
  Status ReadModel(const json::object& file) {
    const json::value* value = JsonMember(file, "model");
    if (value == nullptr || !value->is_object()) return InvalidArgument("missing");
    const json::object& model = value->get_object();
    TANDEM_ASSIGN_OR_RETURN(const std::string type, JsonStringOr(model, "type", "BPE"));
    if (type != "BPE") return InvalidArgument("type '{}' is not supported; known: BPE", type);
    for (std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      TANDEM_ASSIGN_OR_RETURN(const std::string text, JsonStringOr(model, key, ""));
      if (!text.empty()) return InvalidArgument("'{}' is '{}': not supported", key, text);
    }
    if (const json::value* dropout = JsonMember(model, "dropout")) {
      if (!dropout->is_number() || dropout->to_number<double>() != 0) {
        return InvalidArgument("'dropout' is not supported");
      }
    }
    TANDEM_ASSIGN_OR_RETURN(data_.ignore_merges, JsonBoolOr(model, "ignore_merges", false));
    TANDEM_ASSIGN_OR_RETURN(data_.fuse_unknown, JsonBoolOr(model, "fuse_unk", false));
    TANDEM_ASSIGN_OR_RETURN(byte_fallback_, JsonBoolOr(model, "byte_fallback", false));
    if (data_.ignore_merges && data_.model != TokenizerData::Model::kByteLevelBpe) {
      return InvalidArgument("'ignore_merges' without ByteLevel is not supported");
    }
    TANDEM_RETURN_IF_ERROR(ReadVocabulary(model));
    TANDEM_ASSIGN_OR_RETURN(const std::string unknown, JsonStringOr(model, "unk_token", ""));
    if (!unknown.empty()) {
      data_.unknown = Find(unknown);
      if (!data_.unknown) return InvalidArgument("unk_token '{}' is no token", unknown);
    }
    return ReadMerges(model);
  }

  Status ReadVocabulary(const json::object& model) {
    const json::value* value = JsonMember(model, "vocab");
    if (value == nullptr || !value->is_object()) return InvalidArgument("no object 'vocab'");
    const json::object& vocabulary = value->get_object();
    for (const auto& [key, id] : vocabulary) {
      if (!id.is_int64() || id.get_int64() < 0 ||
          id.get_int64() > static_cast<std::int64_t>(vocabulary.size()) + kMaxHoles) {
        return InvalidArgument("vocab: token '{}' has no id that fits {} tokens", ToString(key),
                               vocabulary.size());
      }
      std::string text = ToString(key);
      const bool is_byte = byte_fallback_ && data_.model == TokenizerData::Model::kBpe &&
                           text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
      TANDEM_RETURN_IF_ERROR(
          Place(id.get_int64(), std::move(text), is_byte ? TokenKind::kByte : TokenKind::kNormal));
    }
    return OkStatus();
  }

  Status Place(std::int64_t id, std::string text, TokenKind kind) {
    const auto index = static_cast<std::size_t>(id);
    if (index >= data_.tokens.size()) {
      data_.tokens.resize(index + 1, Token{"", 0, TokenKind::kUnused});
    }
    Token& token = data_.tokens[index];
    if (token.kind != TokenKind::kUnused) {
      return InvalidArgument("'{}' and '{}' both have the id {}", token.text, text, id);
    }
    ids_[text] = static_cast<std::int32_t>(id);
    token.text = std::move(text);
    token.kind = kind;
    return OkStatus();
  }

  Status ReadMerges(const json::object& model) {
    const json::value* value = JsonMember(model, "merges");
    if (value == nullptr || !value->is_array()) return InvalidArgument("no list 'merges'");
    for (const json::value& item : value->get_array()) {
      Merge merge;
      if (item.is_string()) {
        const std::string text = ToString(item.get_string());
        const std::size_t space = text.find(' ');
        if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
          merge = {text.substr(0, space), text.substr(space + 1)};
        }
      } else if (item.is_array() && item.get_array().size() == 2 &&
                 item.get_array()[0].is_string() && item.get_array()[1].is_string()) {
        merge = {ToString(item.get_array()[0].get_string()),
                 ToString(item.get_array()[1].get_string())};
      }
      if (merge.left.empty() || merge.right.empty()) {
        return InvalidArgument("merges[{}]: expected two tokens", data_.merges.size());
      }
      data_.merges.push_back(std::move(merge));
    }
    return OkStatus();
  }

  Status ReadAddedTokens(const json::object& file) {
    const json::value* value = JsonMember(file, "added_tokens");
    if (value == nullptr) return OkStatus();
    if (!value->is_array()) return InvalidArgument("expected a list");
    for (const json::value& item : value->get_array()) {
      if (!item.is_object()) return InvalidArgument("expected objects");
      const json::object& object = item.get_object();
      AddedToken added;
      TANDEM_ASSIGN_OR_RETURN(added.content, JsonString(object, "content"));
      const json::value* id = JsonMember(object, "id");
      if (id == nullptr || !id->is_int64() || id->get_int64() < 0 ||
          id->get_int64() > static_cast<std::int64_t>(data_.tokens.size()) + kMaxHoles) {
        return InvalidArgument("'{}' has no id that fits {} tokens", added.content,
                               data_.tokens.size());
      }
      added.id = TokenId(static_cast<std::int32_t>(id->get_int64()));
      TANDEM_ASSIGN_OR_RETURN(added.special, JsonBoolOr(object, "special", false));
      TANDEM_ASSIGN_OR_RETURN(added.lstrip, JsonBoolOr(object, "lstrip", false));
      TANDEM_ASSIGN_OR_RETURN(added.rstrip, JsonBoolOr(object, "rstrip", false));
      TANDEM_ASSIGN_OR_RETURN(added.single_word, JsonBoolOr(object, "single_word", false));
      TANDEM_ASSIGN_OR_RETURN(added.normalized, JsonBoolOr(object, "normalized", !added.special));
      TANDEM_RETURN_IF_ERROR(Add(std::move(added)));
    }
    return OkStatus();
  }

  Status Add(AddedToken added) {
    const auto known = Find(added.content);
    if (known && *known != added.id) {
      return InvalidArgument("'{}' has the id {}, in the vocabulary {}", added.content,
                             added.id.value(), known->value());
    }
    if (!known) {
      TANDEM_RETURN_IF_ERROR(Place(added.id.value(), added.content, TokenKind::kUserDefined));
    }
    if (added.special) {
      data_.tokens[static_cast<std::size_t>(added.id.value())].kind = TokenKind::kControl;
    }
    data_.added.push_back(std::move(added));
    return OkStatus();
  }

  std::optional<TokenId> Find(const std::string& text) const {
    auto it = ids_.find(text);
    return it == ids_.end() ? std::nullopt : std::optional(TokenId(it->second));
  }

  // A token's text, as a string or inside an object.
  StatusOr<std::optional<TokenId>> NamedToken(const json::object& config, std::string_view key) {
    const json::value* value = JsonMember(config, key);
    if (value == nullptr) return std::optional<TokenId>();
    std::string text;
    if (value->is_object()) {
      TANDEM_ASSIGN_OR_RETURN(text, JsonString(value->get_object(), "content"));
    } else {
      TANDEM_ASSIGN_OR_RETURN(text, JsonString(config, key));
    }
    const auto id = Find(text);
    if (!id) return InvalidArgument("{} '{}' is no token of tokenizer.json", key, text);
    return id;
  }

  Status ReadConfig(const TokenizerFiles& files) {
    if (!files.chat_template_jinja.empty()) data_.chat_template = files.chat_template_jinja;
    if (files.tokenizer_config_json.empty()) return OkStatus();
    TANDEM_ASSIGN_OR_RETURN(const json::object config,
                            ParseObject("file", files.tokenizer_config_json));
    TANDEM_ASSIGN_OR_RETURN(data_.bos, NamedToken(config, "bos_token"));
    TANDEM_ASSIGN_OR_RETURN(data_.eos, NamedToken(config, "eos_token"));
    if (data_.eos) data_.end_of_generation.push_back(*data_.eos);
    const json::value* chat = JsonMember(config, "chat_template");
    if (data_.chat_template || chat == nullptr) return OkStatus();
    if (chat->is_string()) {
      data_.chat_template = ToString(chat->get_string());
      return OkStatus();
    }
    if (!chat->is_array()) return InvalidArgument("chat_template is neither a string nor a list");
    for (const json::value& item : chat->get_array()) {
      if (!item.is_object()) return InvalidArgument("chat_template: expected objects");
      TANDEM_ASSIGN_OR_RETURN(const std::string name, JsonString(item.get_object(), "name"));
      if (name != "default") continue;
      TANDEM_ASSIGN_OR_RETURN(data_.chat_template, JsonString(item.get_object(), "template"));
    }
    return OkStatus();
  }

  Status ReadEosIds(const TokenizerFiles& files) {
    constexpr std::string_view kKey = "eos_token_id";
    const std::pair<std::string_view, std::string_view> sources[] = {
        {"generation_config.json", files.generation_config_json},
        {"config.json", files.config_json}};
    for (const auto& [name, text] : sources) {
      if (text.empty()) continue;
      TANDEM_ASSIGN_OR_RETURN(const json::object config, ParseObject(name, text));
      const json::value* value = JsonMember(config, kKey);
      if (value == nullptr) continue;
      const json::array ids = value->is_array() ? value->get_array() : json::array{*value};
      for (const json::value& id : ids) {
        if (!id.is_int64() || id.get_int64() < 0 ||
            id.get_int64() >= static_cast<std::int64_t>(data_.tokens.size())) {
          return InvalidArgument("{}: {} has an id outside the vocabulary of {}", name, kKey,
                                 data_.tokens.size());
        }
        data_.end_of_generation.push_back(TokenId(static_cast<std::int32_t>(id.get_int64())));
      }
      return OkStatus();
    }
    return OkStatus();
  }

  TokenizerData data_;
  bool byte_fallback_ = false;
  std::unordered_map<std::string, std::int32_t> ids_;
};

// Empty if there is no such file.
StatusOr<std::string> ReadTextIfPresent(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::string();
  TANDEM_ASSIGN_OR_RETURN(const auto file, formats::MappedFile::Open(path.string()));
  const auto bytes = file.bytes();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

StatusOr<TokenizerData> ReadJsonTokenizer(const TokenizerFiles& files) {
  return Reader().Run(files);
}

StatusOr<Tokenizer> LoadTokenizerFromFolder(const std::string& folder) {
  const std::filesystem::path root(folder);
  TokenizerFiles files;
  TANDEM_ASSIGN_OR_RETURN(files.tokenizer_json, ReadTextIfPresent(root / "tokenizer.json"));
  if (files.tokenizer_json.empty()) {
    return NotFound("{}: no tokenizer.json (a tokenizer.model alone is not read; convert it)",
                    folder);
  }
  TANDEM_ASSIGN_OR_RETURN(files.tokenizer_config_json,
                          ReadTextIfPresent(root / "tokenizer_config.json"));
  TANDEM_ASSIGN_OR_RETURN(files.generation_config_json,
                          ReadTextIfPresent(root / "generation_config.json"));
  TANDEM_ASSIGN_OR_RETURN(files.config_json, ReadTextIfPresent(root / "config.json"));
  TANDEM_ASSIGN_OR_RETURN(files.chat_template_jinja,
                          ReadTextIfPresent(root / "chat_template.jinja"));
  auto data = ReadJsonTokenizer(files);
  if (!data.ok()) return Annotate(data.status(), folder);
  auto tokenizer = Tokenizer::Create(*std::move(data));
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), folder);
  return tokenizer;
}

}  // namespace tandem::tokenizer
