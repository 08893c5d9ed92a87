// Measures one engine on this machine: prompts, generation at several batch sizes, where the time
// goes, and what the machine could do at most. `engine_bench --help` lists the flags. Run it alone
// on the machine, or its barriers wait for other programs' time slices.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <chrono>
#include <string>
#include <vector>

#include "common/config/program_options.h"
#include "tests/bench/engine/engine_load.h"
#include "tests/bench/engine/engine_report.h"
#include "tests/testing/paths.h"

namespace tandem::bench {
namespace {

constexpr int kMostTokens = 1 << 16;

struct Flags {
  std::string model;
  std::string numerics = "auto";
  std::string weights_cache = "off";
  int threads = 2;
  std::vector<std::string> prefill = {"512", "2048"};
  std::vector<std::string> decode = {"1", "8", "32"};
  int decode_prompt = 128;
  int decode_steps = 64;
  int chunk = 512;
  int rounds = 5;
  bool profile = false;
  bool ceiling = false;
  bool json = false;

  void Register(config::ProgramOptions& options) {
    using namespace config;
    options.Add("model", "PATH", "GGUF file or folder (SmolLM2 from the model cache)",
                Text(&model));
    options.Add("numerics", "CLASS", "numerics class, or auto", Text(&numerics));
    options.Add("weights-cache", "DIR", "folder of shared packed weights, or off",
                Text(&weights_cache));
    options.Add("threads", "N", "threads that compute", Int(&threads, 1, 1024));
    options.Add("prefill", "N,…", "lengths of prompts in tokens", List(&prefill));
    options.Add("decode", "N,…", "numbers of sequences that generate together", List(&decode));
    options.Add("decode-prompt", "N", "tokens before a sequence generates",
                Int(&decode_prompt, 1, kMostTokens));
    options.Add("decode-steps", "N", "tokens that each generates", Int(&decode_steps, 1, 4096));
    options.Add("chunk", "N", "prompt tokens a step", Int(&chunk, 1, kMostTokens));
    options.Add("rounds", "N", "of all cases in turn; medians of these", Int(&rounds, 1, 1000));
    options.Add("profile", "", "one more round with the time of each stage", Switch(&profile));
    options.Add("ceiling", "", "also measure what the machine can do", Switch(&ceiling));
    options.Add("json", "", "print JSON", Switch(&json));
  }
};

StatusOr<std::vector<int>> Numbers(std::string_view flag, const std::vector<std::string>& texts) {
  std::vector<int> numbers;
  for (const std::string& text : texts) {
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 1 ||
        number > kMostTokens) {
      return InvalidArgument("--{} has '{}', must be numbers from 1 to {}", flag, text,
                             kMostTokens);
    }
    numbers.push_back(number);
  }
  return numbers;
}

// Rounds of every case, then the profiles.
std::vector<CaseResult> RunCases(const model::Model& model, const Flags& flags,
                                 const std::vector<int>& prefill, const std::vector<int>& decode) {
  EngineLoad::Options options{.threads = flags.threads,
                              .chunk = flags.chunk,
                              .max_sequences = 1,
                              .max_tokens = flags.decode_prompt + flags.decode_steps};
  for (const int tokens : prefill) options.max_tokens = std::max(options.max_tokens, tokens);
  for (const int sequences : decode) {
    options.max_sequences = std::max(options.max_sequences, sequences);
    options.max_tokens =
        std::max(options.max_tokens, sequences * (flags.decode_prompt + flags.decode_steps));
  }
  EngineLoad load(model, options);
  std::vector<CaseResult> results;
  for (const int n : prefill) results.push_back({fmt::format("prefill {}", n), {}, {}});
  for (const int n : decode) results.push_back({fmt::format("decode {}", n), {}, {}});
  const auto seconds_of = [&](std::size_t index) {
    if (index < prefill.size()) return load.Prefill(prefill[index]);
    return load.Decode(decode[index - prefill.size()], flags.decode_prompt, flags.decode_steps);
  };
  const auto tokens_of = [&](std::size_t index) {
    return index < prefill.size() ? prefill[index]
                                  : decode[index - prefill.size()] * flags.decode_steps;
  };
  load.Prefill(std::min(options.max_tokens, flags.chunk));  // pages touched, clocks up
  for (int round = 0; round < flags.rounds; ++round) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      results[i].tokens_per_s.push_back(tokens_of(i) / seconds_of(i));
    }
  }
  if (!flags.profile) return results;
  engine::StageTimes times(flags.threads);
  load.SetStageTimes(&times);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const double seconds = seconds_of(i);
    results[i].profile = ProfileOf(seconds, times, load.work());
  }
  return results;
}

Status Run(const Flags& flags) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<int> prefill, Numbers("prefill", flags.prefill));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<int> decode, Numbers("decode", flags.decode));
  std::string path = flags.model;
  if (path.empty()) path = testing::SmolLm2Path().value_or("");
  if (path.empty()) return NotFound("no model: give --model, or run deploy/quickstart once");
  const auto begin = std::chrono::steady_clock::now();
  model::Model::LoadOptions load{.numerics = flags.numerics, .threads = flags.threads};
  if (flags.weights_cache != "off") {
    load.weight_cache = model::WeightCache::Options{.folder = flags.weights_cache};
  }
  TANDEM_ASSIGN_OR_RETURN(const auto model, model::Model::Load(path, load));
  EngineReport report;
  report.model = model->config().ToString();
  report.numerics_class = std::string(model->numerics_class());
  report.threads = flags.threads;
  report.load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  report.packed_mb = static_cast<double>(model->packed_bytes().value()) * 1e-6;
  report.cases = RunCases(*model, flags, prefill, decode);
  if (flags.ceiling) {
    const std::int64_t bytes =
        std::max<std::int64_t>(StageWork(*model).weight_bytes_per_step(), 1 << 20);
    TANDEM_ASSIGN_OR_RETURN(report.ceiling, MeasureCeiling(bytes, flags.threads));
  }
  fmt::print("{}", flags.json ? boost::json::serialize(report.ToJson()) + "\n" : report.ToText());
  return OkStatus();
}

int Main(int argc, char** argv) {
  Flags flags;
  config::ProgramOptions options("engine_bench", "Measures one engine on this machine.");
  flags.Register(options);
  const auto outcome = options.Parse(argc, argv);
  if (!outcome.ok()) {
    fmt::print(stderr, "engine_bench: {}\n", FromAbsl(outcome.status().message()));
    return 2;
  }
  if (*outcome == config::ProgramOptions::Outcome::kShown) return 0;
  if (const Status status = Run(flags); !status.ok()) {
    fmt::print(stderr, "engine_bench: {}\n", FromAbsl(status.message()));
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
