#include "deploy/serve/ask.h"

#include <boost/json.hpp>
#include <cstdio>
#include <optional>

namespace tandem::deploy {
namespace {

namespace json = boost::json;

std::optional<double> Number(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->to_number<double>();
}

}  // namespace

Status Ask(client::OpenAiClient& client, const std::string& model, const std::string& question) {
  client::ChatRequest request;
  request.model = model;
  request.messages = {{"user", question}};
  request.extra = {{"temperature", 0}, {"max_tokens", 256}, {"timings", true}};
  std::printf("\n> %s\n\n", question.c_str());
  std::fflush(stdout);
  TANDEM_ASSIGN_OR_RETURN(client::ChatAnswer answer,
                          client.Chat(request, [](std::string_view text) {
                            std::fwrite(text.data(), 1, text.size(), stdout);
                            std::fflush(stdout);
                          }));
  std::printf("\n\n%s\n", Summary(answer).c_str());
  std::fflush(stdout);
  return OkStatus();
}

std::string Summary(const client::ChatAnswer& answer) {
  const auto usage = [&](const char* key) { return Number(answer.usage, key); };
  const auto timing = [&](const char* key) { return Number(answer.timings, key); };
  std::string out;
  const auto line = [&](const char* label, const std::string& text) {
    out += fmt::format("  {:<22}{}\n", label, text);
  };
  if (auto tokens = usage("prompt_tokens")) line("prompt", fmt::format("{:.0f} tokens", *tokens));
  const auto generated = usage("completion_tokens");
  if (generated)
    line("answer", fmt::format("{:.0f} tokens ({})", *generated, answer.finish_reason));
  if (auto ttft = timing("ttft_ms")) line("time to first token", fmt::format("{:.1f} ms", *ttft));
  if (auto itl = timing("itl_mean_ms"); itl && *itl > 0) {
    line("inter-token latency", fmt::format("{:.2f} ms mean, {:.1f} tokens/s", *itl, 1000 / *itl));
  }
  if (auto bytes = timing("transfer_bytes")) {
    line("KV moved", fmt::format("{:.2f} MB", *bytes / 1e6));
  }
  const auto transfer = timing("transfer_ms");
  const auto exposed = timing("transfer_exposed_ms");
  if (transfer && exposed) {
    line("KV transfer", fmt::format("{:.2f} ms in all, {:.2f} ms of it exposed after prefill",
                                    *transfer, *exposed));
  }
  return out;
}

}  // namespace tandem::deploy
