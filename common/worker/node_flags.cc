#include "common/worker/node_flags.h"

#include <algorithm>

#include "common/log/log.h"
#include "common/worker/core_group.h"

namespace tandem::worker {

using config::Bytes;
using config::Choice;
using config::Int;
using config::Seconds;
using config::Text;

namespace {

// The list is one, every CPU may be used, and each thread gets one.
Status CheckCpus(const std::string& cpus, int threads) {
  if (cpus == "auto" || cpus == "any") return OkStatus();
  const StatusOr<CpuList> list = ParseCpuList(cpus);
  if (!list.ok()) return Annotate(list.status(), "--cpus");
  if (Status allowed = CheckAllowed(*list); !allowed.ok()) return Annotate(allowed, "--cpus");
  if (threads > static_cast<int>(list->size())) {
    return InvalidArgument(
        "--threads {} are more than the {} CPUs of --cpus {}: two threads on one CPU wait for each "
        "other; give fewer threads, or 0",
        threads, list->size(), cpus);
  }
  return OkStatus();
}

}  // namespace

void NodeFlags::AddTo(config::ProgramOptions& options) {
  options.Add("model", "PATH", "GGUF file, or folder of safetensors files", Text(&model));
  options.Add("name", "NAME", "name of this node, unique in its cluster", Text(&name));
  options.Add("listen", "HOST:PORT", "control address; port 0: a free one", Text(&listen));
  options.Add("port-file", "FILE", "file that gets HOST:PORT once ready", Text(&port_file));
  options.Add("threads", "N", "threads that compute; 0: one a CPU", Int(&threads, 0, 1024));
  options.Add("context", "TOKENS", "longest sequence; 0: the model's", Int(&context, 0, 1 << 24));
  options.Add("kv-memory", "BYTES", "memory for the KV cache (512M, 2G)", Bytes(&kv_memory));
  options.Add("kv-transport", "NAME", "how KV travels",
              Choice(&kv_transport, {"auto", "ucx-shm", "ucx-tcp"}));
  options.Add("kv-interface", "NAME", "interface of ucx-tcp; empty: any", Text(&kv_interface));
  options.Add("numerics", "CLASS", "numerics class; auto: the CPU's best", Text(&numerics));
  options.Add("weights-cache", "DIR",
              "folder of packed weights that processes of this host share; auto: in ~/.cache; off",
              Text(&weights_cache));
  options.Add("nice", "N", "priority of computing, 19 is lowest", Int(&nice, 0, 19));
  options.Add(
      "cpus", "LIST",
      "bind the computing threads to these CPUs (0-3,8), one each; any: to none; auto: to all, "
      "where there are as many threads",
      Text(&cpus));
  options.Add("core-group", "NAME",
              "take turns at computing with the nodes of this group, which share its cores",
              Text(&core_group));
  options.Add("drain-timeout", "TIME", "on SIGTERM, time to finish requests",
              Seconds(&drain_timeout));
  options.Add("log-level", "LEVEL", "what is logged", Choice(&log_level, log::LevelNames()));
  options.Add("parent-pid", "PID", "stop when that process ends; 0: none",
              Int(&parent_pid, 0, 1 << 30));
  options.Add("progress-fd", "FD", "tell a supervisor there of the engine's steps; -1: none",
              Int(&progress_fd, -1, 1 << 20));
}

Status NodeFlags::Validate() const {
  if (model.empty()) {
    return InvalidArgument("--model is missing: give a GGUF file or a folder of safetensors");
  }
  if (name.empty()) return InvalidArgument("--name is empty");
  if (auto address = net::ParseHostPort(listen); !address.ok()) {
    return Annotate(address.status(), "--listen");
  }
  if (kv_memory <= ByteCount(0)) {
    return InvalidArgument("--kv-memory is {}, must be above 0", kv_memory);
  }
  if (weights_cache != "auto" && weights_cache != "off" && !weights_cache.starts_with('/')) {
    return InvalidArgument("--weights-cache is '{}', must be auto, off or an absolute path",
                           weights_cache);
  }
  if (!core_group.empty()) {
    if (Status named = CoreGroup::CheckName(core_group); !named.ok()) {
      return Annotate(named, "--core-group");
    }
  }
  return CheckCpus(cpus, threads);
}

CpuList NodeFlags::Cpus() const {
  if (cpus == "any") return {};
  if (cpus != "auto") return *ParseCpuList(cpus);
  const StatusOr<CpuList> allowed = AllowedCpus();
  const Status bound = allowed.ok() ? TryBinding(*allowed) : allowed.status();
  if (bound.ok()) return OneForEachThread(*allowed, threads);
  log::Warning("engine.cpus", "value=any error=\"{}\"", FromAbsl(bound.message()));
  return {};
}

StatusOr<KvSize> FitKv(const kv::KvLayout& layout, ByteCount memory, TokenCount wanted,
                       TokenCount of_model) {
  constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 24;
  KvSize size;
  size.num_blocks = kv::BlockCount(static_cast<std::int32_t>(
      std::min(memory.value() / layout.bytes_per_block().value(), kMaxBlocks)));
  const TokenCount context = wanted > TokenCount(0) ? std::min(wanted, of_model) : of_model;
  const auto holds = TokenCount(static_cast<std::int32_t>(
      std::min<std::int64_t>(std::int64_t{size.num_blocks.value()} * layout.block_size, 1 << 30)));
  const kv::BlockCount needs =
      layout.BlocksFor(wanted > TokenCount(0) ? context : TokenCount(layout.block_size));
  if (size.num_blocks < needs) {
    return InvalidArgument(
        "--kv-memory {} holds {} tokens of this model, {} are asked for: give at least {} bytes, "
        "or a smaller --context",
        memory, holds, context, layout.arena_bytes(needs));
  }
  size.context = std::min(context, holds);
  return size;
}

}  // namespace tandem::worker
