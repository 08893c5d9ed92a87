#include "router/api/unhonoured_fields.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "router/api/field_reader.h"

namespace tandem::router {
namespace {

namespace json = boost::json;

// What leaves the answer as it would be without the field. `null` always does.
enum class Neutral {
  kNever,
  kZero,
  kOne,
  kFalse,
  kTrue,
  kAnyBool,
  kEmpty,       // "", [] or {}
  kTextFormat,  // {"type":"text"}
  kNoneOrAuto,  // tool_choice without tools
};

struct Field {
  std::string_view name;
  Neutral neutral;
  std::string_view neutral_text;  // for messages
  bool text = true;               // of /v1/completions
  bool chat = true;
};

constexpr Field kFields[] = {
    {"n", Neutral::kOne, "1"},
    {"best_of", Neutral::kOne, "1"},
    {"echo", Neutral::kFalse, "false"},
    {"suffix", Neutral::kEmpty, "\"\""},
    {"logprobs", Neutral::kFalse, "false"},
    {"top_logprobs", Neutral::kZero, "0"},
    {"prompt_logprobs", Neutral::kNever, "null"},
    {"n_probs", Neutral::kZero, "0"},
    {"frequency_penalty", Neutral::kZero, "0"},
    {"presence_penalty", Neutral::kZero, "0"},
    {"repetition_penalty", Neutral::kOne, "1"},
    {"repeat_penalty", Neutral::kOne, "1"},
    {"length_penalty", Neutral::kOne, "1"},
    {"no_repeat_ngram_size", Neutral::kZero, "0"},
    {"typical_p", Neutral::kOne, "1"},
    {"tfs_z", Neutral::kOne, "1"},
    {"mirostat", Neutral::kZero, "0"},
    {"mirostat_mode", Neutral::kZero, "0"},
    {"dry_multiplier", Neutral::kZero, "0"},
    {"xtc_probability", Neutral::kZero, "0"},
    {"use_beam_search", Neutral::kFalse, "false"},
    {"logit_bias", Neutral::kEmpty, "{}"},
    {"bad_words", Neutral::kEmpty, "[]"},
    {"allowed_token_ids", Neutral::kNever, "null"},
    {"logits_processors", Neutral::kEmpty, "[]"},
    {"min_tokens", Neutral::kZero, "0"},
    {"include_stop_str_in_output", Neutral::kFalse, "false"},
    {"skip_special_tokens", Neutral::kTrue, "true"},
    {"spaces_between_special_tokens", Neutral::kAnyBool, "true"},
    {"add_special_tokens", Neutral::kTrue, "true", true, false},
    {"add_special_tokens", Neutral::kFalse, "false", false, true},
    {"truncate_prompt_tokens", Neutral::kNever, "null"},
    {"return_token_ids", Neutral::kFalse, "false"},
    {"return_tokens_as_token_ids", Neutral::kFalse, "false"},
    {"cache_salt", Neutral::kNever, "null"},
    {"prompt_embeds", Neutral::kEmpty, "[]"},
    {"response_format", Neutral::kTextFormat, "{\"type\":\"text\"}"},
    {"structured_outputs", Neutral::kNever, "null"},
    {"guided_json", Neutral::kNever, "null"},
    {"guided_regex", Neutral::kNever, "null"},
    {"guided_choice", Neutral::kNever, "null"},
    {"guided_grammar", Neutral::kNever, "null"},
    {"grammar", Neutral::kEmpty, "\"\""},
    {"json_schema", Neutral::kNever, "null"},
    {"lora", Neutral::kEmpty, "[]"},
    {"tools", Neutral::kEmpty, "[]", false, true},
    {"functions", Neutral::kEmpty, "[]", false, true},
    {"tool_choice", Neutral::kNoneOrAuto, "\"none\" or \"auto\"", false, true},
    {"function_call", Neutral::kNoneOrAuto, "\"none\" or \"auto\"", false, true},
    {"parallel_tool_calls", Neutral::kAnyBool, "true or false", false, true},
    {"add_generation_prompt", Neutral::kTrue, "true", false, true},
    {"continue_final_message", Neutral::kFalse, "false", false, true},
    {"chat_template", Neutral::kNever, "null", false, true},
    {"chat_template_kwargs", Neutral::kEmpty, "{}", false, true},
    {"documents", Neutral::kEmpty, "[]", false, true},
    {"modalities", Neutral::kNever, "null", false, true},
    {"audio", Neutral::kNever, "null", false, true},
    {"prediction", Neutral::kNever, "null", false, true},
    {"reasoning_effort", Neutral::kNever, "null", false, true},
    {"web_search_options", Neutral::kNever, "null", false, true},
};

bool IsNumber(const json::value& value, double expected) {
  return value.is_number() && value.to_number<double>() == expected;
}

bool IsText(const json::value& value, std::string_view text) {
  const json::string* string = value.if_string();
  return string != nullptr && std::string_view(string->data(), string->size()) == text;
}

bool IsNeutral(Neutral neutral, const json::value& value) {
  switch (neutral) {
    case Neutral::kNever:
      return false;
    case Neutral::kZero:
      return IsNumber(value, 0);
    case Neutral::kOne:
      return IsNumber(value, 1);
    case Neutral::kFalse:
      return value.is_bool() && !value.get_bool();
    case Neutral::kTrue:
      return value.is_bool() && value.get_bool();
    case Neutral::kAnyBool:
      return value.is_bool();
    case Neutral::kEmpty:
      return IsText(value, "") || (value.is_array() && value.get_array().empty()) ||
             (value.is_object() && value.get_object().empty());
    case Neutral::kTextFormat: {
      const json::object* object = value.if_object();
      const json::value* type = object == nullptr ? nullptr : object->if_contains("type");
      return type != nullptr && IsText(*type, "text");
    }
    case Neutral::kNoneOrAuto:
      return IsText(value, "none") || IsText(value, "auto");
  }
  return false;
}

const Field* FindField(CompletionKind kind, std::string_view name) {
  const bool chat = kind == CompletionKind::kChat;
  auto it = std::find_if(std::begin(kFields), std::end(kFields), [&](const Field& field) {
    return field.name == name && (chat ? field.chat : field.text);
  });
  return it == std::end(kFields) ? nullptr : &*it;
}

}  // namespace

FieldVerdict JudgeField(CompletionKind kind, std::string_view name, const json::value& value) {
  const Field* field = FindField(kind, name);
  if (field == nullptr) return FieldVerdict::kUnknown;
  if (value.is_null() || IsNeutral(field->neutral, value)) return FieldVerdict::kNeutral;
  return FieldVerdict::kRefused;
}

ApiError UnhonouredError(CompletionKind kind, std::string_view name, const json::value& value) {
  const Field* field = FindField(kind, name);
  return ApiError{.status = 400,
                  .message = fmt::format(
                      "{} is {}, which is not supported here: leave it out, or send null{}{}", name,
                      Describe(value), field->neutral == Neutral::kNever ? "" : " or ",
                      field->neutral == Neutral::kNever ? "" : field->neutral_text),
                  .param = std::string(name),
                  .code = "unsupported_parameter"};
}

}  // namespace tandem::router
