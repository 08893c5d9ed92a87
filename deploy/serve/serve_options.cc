#include "deploy/serve/serve_options.h"

#include <sys/statvfs.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/base/cpu_list.h"
#include "deploy/serve/model_id.h"

namespace tandem::deploy {
namespace {

// Beside the KV blocks: the arena's header, a probe region, UCX's own queues.
constexpr std::int64_t kSharedMemoryMargin = std::int64_t{16} << 20;

}  // namespace

void ServeOptions::Register(config::ProgramOptions& options) {
  using namespace config;
  options.Add("model", "PATH", "a GGUF file or a safetensors folder; required", Text(&model));
  options.Add("alias", "NAME", "serve the model under this id (from the file's name)",
              Text(&alias));
  options.Add("prefill", "N", "prefill nodes", Int(&num_prefill, 1, 64));
  options.Add("decode", "N", "decode nodes", Int(&num_decode, 1, 64));
  options.Add("host", "ADDRESS", "address of the API", Text(&host));
  options.Add("port", "PORT", "TCP port of the API; 0: a free one", Int(&port, 0, 65535));
  options.Add("api-key", "KEY", "clients must send this key (none)", Text(&api_key));
  options.Add("allow-public", "", "listen on a non-loopback address without a key",
              Switch(&allow_public));
  options.Add("threads", "N", "compute threads per node; 0: one per core", Int(&threads, 0, 1024));
  options.Add(
      "cpus", "LIST",
      "bind each node's threads to these CPUs (0-3,8); any, auto: see tandem-decode; empty: "
      "decode nodes auto, prefill nodes any",
      Text(&cpus));
  options.Add("core-sharing", "HOW",
              "nodes that share cores leave it to the system, or take turns at computing",
              Choice(&core_sharing, {"free", "turns"}));
  options.Add("context", "TOKENS", "longest sequence; 0: the model's own",
              Int(&context, 0, 1 << 24));
  options.Add("kv-memory", "SIZE",
              "memory for KV blocks per node; decode nodes take it from /dev/shm",
              Bytes(&kv_memory));
  options.Add("kv-transport", "NAME", "how KV travels",
              Choice(&kv_transport, {"ucx-shm", "ucx-tcp"}));
  options.Add("numerics", "CLASS", "hold all nodes to this numerics class", Text(&numerics));
  options.Add("weights-cache", "DIR",
              "folder of packed weights, shared by all nodes; auto: in ~/.cache; off",
              Text(&weights_cache));
  options.Add("log-level", "LEVEL", "what the processes log",
              Choice(&log_level, {"debug", "info", "warning", "error"}));
  options.Add("state-folder", "PATH", fmt::format("for logs ({})", DefaultStateFolder().string()),
              Text(&state_folder));
  options.Add("restart", "WHEN", "which processes that ended are started again",
              Choice(&restart, {"always", "on-failure", "never"}));
  options.Add("give-up-after", "N", "early deaths of one process in a row; 0: never",
              Int(&give_up_after, 0, 1000));
  options.Add("stuck-after", "TIME",
              "kill a process that is stuck or stopped for this long; 0: never",
              Seconds(&stuck_after));
  options.Add("ask", "TEXT", "ask this once ready, stream the answer, print what happened",
              Text(&ask));
  options.Add("once", "", "stop after the answer", Switch(&once));
}

Status ServeOptions::Validate() const {
  if (model.empty()) {
    return InvalidArgument("--model is missing: give a GGUF file or a safetensors folder");
  }
  std::error_code bad;
  if (!std::filesystem::exists(model, bad)) {
    return InvalidArgument("--model: there is no '{}'; give a GGUF file or a safetensors folder",
                           model);
  }
  if (once && ask.empty())
    return InvalidArgument("--once needs --ask TEXT: it stops after that answer");
  if (!cpus.empty() && cpus != "auto" && cpus != "any") {
    const StatusOr<CpuList> list = ParseCpuList(cpus);
    if (!list.ok()) return Annotate(list.status(), "--cpus");
    if (Status allowed = CheckAllowed(*list); !allowed.ok()) return Annotate(allowed, "--cpus");
  }
  if (kv_memory.value() < (std::int64_t{1} << 20)) {
    return InvalidArgument("--kv-memory is {} bytes, must be 1M or more", kv_memory);
  }
  if (weights_cache != "auto" && weights_cache != "off" && !weights_cache.starts_with('/')) {
    return InvalidArgument("--weights-cache is '{}', must be auto, off or an absolute path",
                           weights_cache);
  }
  if (kv_transport == "ucx-shm") {
    TANDEM_RETURN_IF_ERROR(CheckSharedMemory(
        "/dev/shm", ByteCount(num_decode * (kv_memory.value() + kSharedMemoryMargin))));
  }
  return OkStatus();
}

RestartMode ServeOptions::restart_mode() const {
  if (restart == "never") return RestartMode::kNever;
  return restart == "on-failure" ? RestartMode::kOnFailure : RestartMode::kAlways;
}

bool ServeOptions::TakeTurns(int num_cpus) const {
  if (core_sharing != "turns") return false;
  return threads == 0 || threads * (num_prefill + num_decode) > num_cpus;
}

std::string ServeOptions::ModelId() const { return alias.empty() ? ServedModelId(model) : alias; }

std::filesystem::path DefaultStateFolder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  if (auto state = variable("XDG_STATE_HOME"); state.is_absolute()) return state / "tandem";
  if (auto home = variable("HOME"); home.is_absolute()) return home / ".local/state/tandem";
  return "/tmp/tandem";
}

Status CheckSharedMemory(const std::filesystem::path& folder, ByteCount needed) {
  struct statvfs room;
  if (::statvfs(folder.c_str(), &room) != 0) {
    return ResourceExhausted(
        "{}: {}; shared memory is needed for --kv-transport ucx-shm (or use ucx-tcp)",
        folder.string(), std::strerror(errno));
  }
  const auto free =
      static_cast<std::int64_t>(room.f_bavail) * static_cast<std::int64_t>(room.f_frsize);
  if (free >= needed.value()) return OkStatus();
  return ResourceExhausted(
      "{} has {} MiB free, the decode nodes need {} MiB there: give less --kv-memory, give the "
      "container more "
      "(docker run --shm-size=2g), or use --kv-transport ucx-tcp",
      folder.string(), free >> 20, (needed.value() + (1 << 20) - 1) >> 20);
}

}  // namespace tandem::deploy
