// Measures what of a hand-off is exposed: a real prefill node and a real decode node, one request
// at a time, for prompts of 128 … 2048 tokens.
//
//   transfer_end_to_end --model PATH [--transport ucx-shm|ucx-tcp] [--rounds N]
//
// exposed     from the last layer's KV computed to Joined received (PhaseTimes; it includes what
//             the last layer still computes for token 0)
// after token from token 0 known to Joined received, as the router saw it
// total       time with a write outstanding
// empty       the same of a hand-off that moves nothing: the prompt again, which the decode node
//             holds; from token 0 to Joined
//
// With --decode-prefix and --prefill-prefix the nodes run in network namespaces: throttled.sh.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "common/base/random.h"
#include "common/config/program_options.h"
#include "common/log/log.h"
#include "kv_transfer/host_memory.h"
#include "tests/bench/transfer/method.h"
#include "tests/integration/nodes/node_process.h"
#include "tests/integration/nodes/test_router.h"

namespace tandem::transfer::bench {
namespace {

struct Flags {
  std::string model;
  std::string programs;
  std::string transport = "ucx-shm";
  std::string decode_prefix;
  std::string prefill_prefix;
  std::string decode_host = "127.0.0.1";
  std::string prefill_host = "127.0.0.1";
  std::string kv_interface;
  int rounds = 5;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<std::string> Words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

StatusOr<std::unique_ptr<testing::NodeProcess>> StartNode(const Flags& flags, const std::string& role) {
  const bool decode = role == "decode";
  std::vector<std::string> command = Words(decode ? flags.decode_prefix : flags.prefill_prefix);
  for (const std::string& word :
       {flags.programs + "/tandem-" + role, std::string("--model"), flags.model,
        std::string("--name"), role, std::string("--listen"),
        (decode ? flags.decode_host : flags.prefill_host) + ":0", std::string("--kv-transport"),
        flags.transport, std::string("--log-level"), std::string("warning"), std::string("--nice"),
        std::string("0")}) {
    command.push_back(word);
  }
  if (!flags.kv_interface.empty()) {
    // The two ends of the pair carry one name, each in its own namespace.
    command.insert(command.end(), {"--kv-interface", flags.kv_interface});
  }
  return testing::NodeProcess::Start(std::move(command),
                            fmt::format("/tmp/tandem-bench-{}-{}.port", ::getpid(), role));
}

TokenIds RandomPrompt(std::int32_t tokens, SplitMix64& random) {
  TokenIds prompt(static_cast<std::size_t>(tokens));
  // Above the special tokens and inside every vocabulary we measure.
  for (TokenId& t : prompt) t = TokenId(static_cast<std::int32_t>(100 + random.Below(20000)));
  return prompt;
}

struct Sample {
  double prefill_ms, bytes, total_ms, exposed_us, after_us, ttft_ms;
};

Sample RunOnce(testing::TestRouter& router, const TokenIds& prompt) {
  sequence::SamplingParams params;
  params.temperature = 0;
  params.max_tokens = TokenCount(2);
  const std::uint64_t number = router.Send(prompt, params);
  router.Await(number);
  const handoff::PhaseTimes times = router.AwaitTimes(number);
  const testing::TestRouter::Outcome outcome = router.Await(number);
  router.AwaitIdle();
  return {.prefill_ms = ToMillis(times.prefill),
          .bytes = static_cast<double>(times.transfer_bytes.value()),
          .total_ms = ToMillis(times.transfer),
          .exposed_us = ToSeconds(times.transfer_exposed) * 1e6,
          .after_us = ToSeconds(outcome.joined_at - outcome.first_token_at) * 1e6,
          .ttft_ms = ToMillis(outcome.first_token_at - outcome.sent)};
}

double MedianOf(const std::vector<Sample>& samples, double Sample::*field) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(sample.*field);
  return Median(std::move(values));
}

// Seconds to copy as many bytes by the yardsticks, in this run.
std::vector<std::pair<std::string, double>> Yardsticks(
    std::vector<std::unique_ptr<Method>>& methods, std::uint64_t blocks) {
  const Shape shape{"kv", 30, blocks, 12288};
  const std::vector<Write> writes = shape.Writes();
  std::vector<std::pair<std::string, double>> out;
  for (auto& method : methods) {
    method->Run(shape, writes);
    std::vector<double> seconds;
    for (int i = 0; i < 5; ++i) seconds.push_back(method->Run(shape, writes));
    out.emplace_back(method->name(), static_cast<double>(shape.bytes()) / Median(seconds) / 1e9);
  }
  return out;
}

void Print(std::int32_t tokens, const std::vector<Sample>& full, const std::vector<Sample>& empty,
           const std::vector<std::pair<std::string, double>>& yardsticks) {
  const double prefill = MedianOf(full, &Sample::prefill_ms);
  const double bytes = MedianOf(full, &Sample::bytes);
  const double total = MedianOf(full, &Sample::total_ms);
  const double exposed = MedianOf(full, &Sample::exposed_us);
  const double after = MedianOf(full, &Sample::after_us);
  const double nothing = MedianOf(empty, &Sample::after_us);
  std::printf("%5d %10.1f %8.2f %9.2f %8.2f %11.0f %9.2f%% %11.0f %8.0f %9.2f%% %8.1f", tokens,
              prefill, bytes / 1e6, total, bytes / (total / 1e3) / 1e9, exposed,
              exposed / 10 / prefill, after, nothing, after / 10 / prefill,
              MedianOf(full, &Sample::ttft_ms));
  for (const auto& [name, speed] : yardsticks) std::printf("  %s %.1f", name.c_str(), speed);
  std::printf("\n");
  std::fflush(stdout);
}

Status Run(const Flags& flags) {
  constexpr std::int32_t kMaxTokens = 2048;
  TANDEM_ASSIGN_OR_RETURN(const HostMemory memory,
                          HostMemory::Allocate(ByteCount(30 * (kMaxTokens / 16) * 12288)));
  std::fill(memory.bytes().begin(), memory.bytes().end(), std::byte{42});
  std::vector<std::unique_ptr<Method>> methods;  // they fork: before any thread
  methods.push_back(MakeMemcpy(memory.bytes()));
  methods.push_back(flags.transport == "ucx-shm" ? MakeRawPut(memory.bytes())
                                                 : MakeRawSocket(memory.bytes()));

  TANDEM_ASSIGN_OR_RETURN(const auto decode, StartNode(flags, "decode"));
  TANDEM_ASSIGN_OR_RETURN(const auto prefill, StartNode(flags, "prefill"));
  rpc::Options rpc;
  rpc.heartbeat_every = std::chrono::milliseconds(100);
  testing::TestRouter router(rpc);
  router.Connect({prefill->address()}, {decode->address()});

  std::printf("%s over %s, %d rounds; medians; GB/s of yardsticks in the same run\n",
              flags.model.c_str(), flags.transport.c_str(), flags.rounds);
  std::printf("%5s %10s %8s %9s %8s %11s %10s %11s %8s %10s %8s\n", "tokens", "prefill ms", "MB",
              "total ms", "GB/s", "exposed us", "", "after token", "empty us", "", "TTFT ms");
  SplitMix64 random(1);
  RunOnce(router, RandomPrompt(256, random));  // warm
  for (std::int32_t tokens = 128; tokens <= kMaxTokens; tokens *= 2) {
    std::vector<Sample> full, empty;
    for (int round = 0; round < flags.rounds; ++round) {
      const TokenIds prompt = RandomPrompt(tokens, random);
      full.push_back(RunOnce(router, prompt));
      empty.push_back(RunOnce(router, prompt));
      if (empty.back().bytes > 0) {
        return Internal("the repeated prompt moved {} bytes, none were expected",
                        empty.back().bytes);
      }
    }
    Print(tokens, full, empty, Yardsticks(methods, static_cast<std::uint64_t>(tokens) / 16));
  }
  return OkStatus();
}

int Main(int argc, char** argv) {
  Flags flags;
  std::error_code ignored;
  flags.programs = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  config::ProgramOptions options("transfer_end_to_end",
                                 "Measures what of a hand-off between two nodes is exposed.");
  options.Add("model", "PATH", "model to measure with", config::Text(&flags.model));
  options.Add("programs", "FOLDER", "where the node programs are", config::Text(&flags.programs));
  options.Add("transport", "NAME", "how KV travels",
              config::Choice(&flags.transport, {"ucx-shm", "ucx-tcp"}));
  options.Add("rounds", "N", "prompts a length", config::Int(&flags.rounds, 1, 1000));
  options.Add("decode-prefix", "WORDS", "command before tandem-decode",
              config::Text(&flags.decode_prefix));
  options.Add("prefill-prefix", "WORDS", "command before tandem-prefill",
              config::Text(&flags.prefill_prefix));
  options.Add("decode-host", "HOST", "the decode node listens on it",
              config::Text(&flags.decode_host));
  options.Add("prefill-host", "HOST", "the prefill node listens on it",
              config::Text(&flags.prefill_host));
  options.Add("kv-interface", "NAME", "interface of ucx-tcp", config::Text(&flags.kv_interface));
  const auto outcome = options.Parse(argc, argv);
  if (outcome.ok() && *outcome == config::ProgramOptions::Outcome::kShown) return 0;
  Status status = outcome.status();
  if (status.ok() && flags.model.empty()) status = InvalidArgument("--model is missing");
  if (status.ok()) status = log::SetLevel("warning");
  if (status.ok()) status = Run(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(FromAbsl(status.message())).c_str());
  return 1;
}

}  // namespace
}  // namespace tandem::transfer::bench

int main(int argc, char** argv) { return tandem::transfer::bench::Main(argc, argv); }
