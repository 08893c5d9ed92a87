#include "deploy/bench/prompt_source.h"

#include <boost/json.hpp>
#include <fstream>

namespace tandem::deploy {
namespace {

namespace json = boost::json;

constexpr std::size_t kShownBytes = 40;

// The seed of item `item`: positive in the API's signed 64 bits.
std::int64_t SeedOf(std::uint64_t seed, std::int64_t item) {
  return static_cast<std::int64_t>(Mix64(Mix64(seed) + static_cast<std::uint64_t>(item)) >> 1);
}

std::string Excerpt(std::string_view text, std::size_t at) {
  return json::serialize(json::string_view(text.substr(at, kShownBytes)));
}

// Takes `key` out of `fields` into `into`, if it is there. Errors: InvalidArgument for another
// type.
template <typename T>
Status TakeField(json::object& fields, std::string_view key, std::optional<T>& into) {
  const auto found = fields.find(json::string_view(key.data(), key.size()));
  if (found == fields.end()) return OkStatus();
  if constexpr (std::is_same_v<T, std::string>) {
    if (!found->value().is_string()) return InvalidArgument("\"{}\" must be a text", key);
    const json::string& text = found->value().get_string();
    into = std::string(text.data(), text.size());
  } else {
    if (!found->value().is_int64()) return InvalidArgument("\"{}\" must be a whole number", key);
    into = found->value().get_int64();
  }
  fields.erase(found);
  return OkStatus();
}

}  // namespace

std::string ExpectedAnswer::Difference(const StreamResult& result) const {
  const bool whole = result.outcome == Outcome::kOk;
  if (text) {
    const std::size_t common = std::min(text->size(), result.text.size());
    std::size_t at = 0;
    while (at < common && (*text)[at] == result.text[at]) ++at;
    const bool shorter = at == result.text.size() && at < text->size();
    if ((at < text->size() || at < result.text.size()) && (whole || !shorter)) {
      return fmt::format("text at byte {}: expected {}, got {}", at, Excerpt(*text, at),
                         Excerpt(result.text, at));
    }
  }
  if (!whole) return "";
  if (tokens && result.tokens && *tokens != *result.tokens) {
    return fmt::format("{} tokens by usage, expected {}", *result.tokens, *tokens);
  }
  if (finish && *finish != result.finish_reason) {
    return fmt::format("finish_reason {}, expected {}", result.finish_reason, *finish);
  }
  return "";
}

StatusOr<PromptSource::Line> PromptSource::ReadLine(std::string_view text, bool chat) {
  boost::system::error_code bad;
  json::value parsed = json::parse(json::string_view(text.data(), text.size()), bad);
  if (bad || !parsed.is_object()) return InvalidArgument("it is no JSON object");
  Line line{std::move(parsed.get_object()), {}};
  TANDEM_RETURN_IF_ERROR(TakeField(line.fields, "expected", line.expected.text));
  TANDEM_RETURN_IF_ERROR(TakeField(line.fields, "expected_tokens", line.expected.tokens));
  TANDEM_RETURN_IF_ERROR(TakeField(line.fields, "expected_finish", line.expected.finish));
  const bool tokens = line.fields.contains("tokens");
  const int prompts =
      int{line.fields.contains("prompt")} + int{line.fields.contains("messages")} + int{tokens};
  if (prompts != 1) {
    return InvalidArgument("it has {} of \"prompt\", \"messages\", \"tokens\"; give one", prompts);
  }
  if (tokens && !line.fields.at("tokens").is_array()) {
    return InvalidArgument("\"tokens\" must be a list of ids");
  }
  if (tokens && chat) {
    return InvalidArgument("\"tokens\" cannot be sent to chat; use --endpoint completions");
  }
  return line;
}

StatusOr<PromptSource> PromptSource::FromFile(const std::string& path,
                                              const PromptOptions& options) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("{}: cannot be read", path);
  PromptSource source(options);
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (text.size() > kLineBytesMax) {
      return InvalidArgument("{}:{}: {} bytes, at most {}", path, number, text.size(),
                             kLineBytesMax);
    }
    StatusOr<Line> line = ReadLine(text, options.chat);
    if (!line.ok()) return Annotate(line.status(), fmt::format("{}:{}", path, number));
    source.lines_.push_back(*std::move(line));
  }
  if (source.lines_.empty()) return InvalidArgument("{}: it has no line", path);
  return source;
}

PromptSource PromptSource::Generated(const PromptOptions& options) {
  PromptSource source(options);
  source.generated_ = true;
  return source;
}

std::optional<std::int64_t> PromptSource::num_lines() const {
  if (generated_) return std::nullopt;
  return static_cast<std::int64_t>(lines_.size());
}

std::int64_t PromptSource::ItemOf(std::int64_t index) const {
  return generated_ ? index : index % static_cast<std::int64_t>(lines_.size());
}

json::object PromptSource::LineOf(std::int64_t item) const {
  json::object line;
  SplitMix64 random(Mix64(options_.seed) ^ Mix64(static_cast<std::uint64_t>(item)));
  if (generated_) {
    json::array& tokens = line["tokens"].emplace_array();
    const std::int64_t count = options_.prompt_tokens.Draw(random);
    tokens.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) tokens.emplace_back(options_.token_ids.Draw(random));
    line["ignore_eos"] = true;
  } else {
    line = lines_[static_cast<std::size_t>(item)].fields;
  }
  if (options_.output_tokens.given() && !line.contains("max_tokens") &&
      !line.contains("max_completion_tokens")) {
    line["max_tokens"] = options_.output_tokens.Draw(random);
  }
  if (!line.contains("seed")) line["seed"] = SeedOf(options_.seed, item);
  if (options_.temperature && !line.contains("temperature")) {
    line["temperature"] = *options_.temperature;
  }
  return line;
}

ExpectedAnswer PromptSource::ExpectedOf(std::int64_t item) const {
  return generated_ ? ExpectedAnswer{} : lines_[static_cast<std::size_t>(item)].expected;
}

std::string PromptSource::PathOf(std::int64_t item) const {
  const bool chat =
      options_.chat ||
      (!generated_ && lines_[static_cast<std::size_t>(item)].fields.contains("messages"));
  return chat ? "/v1/chat/completions" : "/v1/completions";
}

std::string PromptSource::BodyOf(std::int64_t item) const {
  json::object body = LineOf(item);
  if (const auto tokens = body.find("tokens"); tokens != body.end()) {
    json::value ids = std::move(tokens->value());
    body.erase("tokens");
    body["prompt"] = std::move(ids);
  } else if (options_.chat && body.contains("prompt")) {
    json::value text = std::move(body["prompt"]);
    body.erase("prompt");
    body["messages"] = json::array{json::object{{"role", "user"}, {"content", std::move(text)}}};
  }
  body["model"] = options_.model;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  if (options_.timings) body["timings"] = true;
  return json::serialize(body);
}

}  // namespace tandem::deploy
