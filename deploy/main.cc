// The `tandem` command: its first argument names what to do.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/config/nearest.h"
#include "common/config/program_options.h"
#include "deploy/admin/drain.h"
#include "deploy/admin/get_nodes.h"
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
    "  simulate  seeded histories of the cluster's decisions, with faults\n"
    "  get       show a router's nodes: tandem get nodes\n"
    "  drain     let a node finish what it has, and end: tandem drain NODE\n\n"
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

// `tandem drain NODE --FLAG…`: the node is the first word behind the command.
int RunDrain(int argc, char** argv) {
  DrainOptions values;
  config::ProgramOptions options("tandem drain NODE", "Lets a node finish what it has, and end.");
  values.Register(options);
  const bool named = argc > 1 && argv[1][0] != '-';
  if (named) values.node = argv[1];
  auto outcome = options.Parse(named ? argc - 1 : argc, named ? argv + 1 : argv);
  if (!outcome.ok()) return Exit(outcome.status());
  if (*outcome == config::ProgramOptions::Outcome::kShown) return 0;
  if (!named) {
    return Exit(InvalidArgument("which node? tandem drain NODE; `tandem get nodes` names them"));
  }
  return Exit(Drain(values));
}

// `tandem get nodes`: nodes are all there is to get.
int RunGet(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what != "nodes" && what != "--help" && what != "-h") {
    return Exit(InvalidArgument("get what? there is: tandem get nodes"));
  }
  const int skip = what == "nodes" ? 1 : 0;
  return RunCommand<GetNodesOptions>("tandem get nodes", "Shows a router's nodes.", argc - skip,
                                     argv + skip, GetNodes);
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
  if (command == "get") return RunGet(argc - 1, argv + 1);
  if (command == "drain") return RunDrain(argc - 1, argv + 1);
  if (command == "--help" || command == "-h" || command == "help") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (!command.empty()) {
    std::fprintf(stderr, "error: there is no command '%s'%s\n\n", argv[1],
                 config::DidYouMean(command, {"serve", "chat", "bench", "simulate", "get", "drain"})
                     .c_str());
  }
  std::fputs(kUsage, stderr);
  return 2;
}

}  // namespace
}  // namespace tandem::deploy

int main(int argc, char** argv) { return tandem::deploy::Main(argc, argv); }
