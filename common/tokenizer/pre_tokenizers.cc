#include "common/tokenizer/pre_tokenizers.h"

#include <algorithm>
#include <array>

namespace tandem::tokenizer {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigit = R"(\p{N})";

enum class Family { kGpt2, kStarcoder, kDeepseekCoder, kLlama3, kQwen2 };

struct Name {
  std::string_view name;
  Family family;
};
constexpr std::array kNames = {
    Name{"gpt-2", Family::kGpt2},
    Name{"smollm", Family::kStarcoder},
    Name{"starcoder", Family::kStarcoder},
    Name{"refact", Family::kStarcoder},
    Name{"command-r", Family::kStarcoder},
    Name{"deepseek-coder", Family::kDeepseekCoder},
    Name{"llama-bpe", Family::kLlama3},
    Name{"llama3", Family::kLlama3},
    Name{"llama-v3", Family::kLlama3},
    Name{"qwen2", Family::kQwen2},
    Name{"deepseek-r1-qwen", Family::kQwen2},
};

std::vector<PreTokenizerStep> Isolate(std::initializer_list<std::string_view> patterns) {
  std::vector<PreTokenizerStep> steps;
  for (std::string_view pattern : patterns) {
    steps.push_back({PreTokenizerStep::Kind::kIsolate, std::string(pattern)});
  }
  return steps;
}

NamedPreTokenizer Make(Family family) {
  switch (family) {
    case Family::kGpt2:
      return {.steps = Isolate({kGpt2})};
    case Family::kStarcoder:
      return {.steps = Isolate({kDigit, kGpt2})};
    case Family::kDeepseekCoder:
      return {.steps =
                  Isolate({R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                           R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)", kDigit})};
    case Family::kLlama3:
      return {.steps = Isolate({kLlama3}), .ignore_merges = true, .add_bos = true};
    case Family::kQwen2:
      return {.steps = Isolate({kQwen2}), .form = UnicodeForm::kNfc};
  }
  return {};
}

}  // namespace

std::string_view Gpt2Pattern() { return kGpt2; }

StatusOr<NamedPreTokenizer> FindPreTokenizer(std::string_view name) {
  auto it =
      std::find_if(kNames.begin(), kNames.end(), [&](const Name& n) { return n.name == name; });
  if (it != kNames.end()) return Make(it->family);
  std::string known;
  for (const Name& n : kNames) known += (known.empty() ? "" : ", ") + std::string(n.name);
  return InvalidArgument("tokenizer.ggml.pre is '{}', which is not supported; known: {}", name,
                         known);
}

}  // namespace tandem::tokenizer
