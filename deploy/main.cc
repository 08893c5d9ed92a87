// The `tandem` command: its first argument names what to do.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/config/nearest.h"
#include "common/config/program_options.h"
#include "deploy/bench/bench.h"
#include "deploy/chat/chat.h"
#include "deploy/serve/serve.h"
#include "deploy/sim/simulate.h"

namespace tandem::deploy {
namespace {

constexpr char kUsage[] =
    "usage: tandem COMMAND [--FLAG VALUE]…\n\n"
    "  serve     start and watch a local cluster: router, prefill nodes, decode nodes\n"
    "  chat      talk to an OpenAI-compatible server\n"
    "  bench     load an OpenAI-compatible server and report latencies, errors, wrong answers\n"
    "  simulate  seeded histories of the cluster's decisions, with faults\n\n"
    "tandem COMMAND --help tells a command's flags.\n";

std::filesystem::path ProgramFolder() {
  std::error_code bad;
  return std::filesystem::read_symlink("/proc/self/exe", bad).parent_path();
}

int Exit(const Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(FromAbsl(status.message())).c_str());
  return absl::IsInvalidArgument(status) ? 2 : 1;
}
int Exit(const StatusOr<int>& code) { return code.ok() ? *code : Exit(code.status()); }

// `Result`: Status, or StatusOr<int> of an exit status.
template <typename Options, typename Result>
int RunCommand(const char* name, const char* purpose, int argc, char** argv,
               Result (*run)(const Options&)) {
  Options values;
  config::ProgramOptions options(name, purpose);
  values.Register(options);
  auto outcome = options.Parse(argc, argv);
  if (!outcome.ok()) return Exit(outcome.status());
  if (*outcome == config::ProgramOptions::Outcome::kShown) return 0;
  return Exit(run(values));
}

int Main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "serve") {
    return RunCommand<ServeOptions, Status>(
        "tandem serve", "Starts and watches a router, prefill nodes and decode nodes on this host.",
        argc - 1, argv + 1,
        [](const ServeOptions& options) { return Serve(options, ProgramFolder()); });
  }
  if (command == "chat") {
    return RunCommand<ChatOptions>("tandem chat", "Talks to an OpenAI-compatible server.", argc - 1,
                                   argv + 1, Chat);
  }
  if (command == "bench") {
    return RunCommand<BenchOptions>("tandem bench",
                                    "Loads an OpenAI-compatible server and reports what it did.",
                                    argc - 1, argv + 1, Bench);
  }
  if (command == "simulate") {
    return RunCommand<SimulateOptions>(
        "tandem simulate", "Runs seeded histories of the production cores under a virtual clock.",
        argc - 1, argv + 1, RunSimulate);
  }
  if (command == "--help" || command == "-h" || command == "help") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (!command.empty()) {
    std::fprintf(stderr, "error: there is no command '%s'%s\n\n", argv[1],
                 config::DidYouMean(command, {"serve", "chat", "bench", "simulate"}).c_str());
  }
  std::fputs(kUsage, stderr);
  return 2;
}

}  // namespace
}  // namespace tandem::deploy

int main(int argc, char** argv) { return tandem::deploy::Main(argc, argv); }
