// tandem-decode: takes KV cache from prefill nodes and generates tokens.
#include "common/log/log.h"
#include "common/worker/node_program.h"
#include "decode_node/decode_service.h"

namespace tandem::decode_node {
namespace {

// Shared memory when only this host can reach the node, TCP otherwise. Never changed silently.
StatusOr<transfer::Transport> ChooseTransport(const std::string& wanted,
                                              const net::HostPort& listen) {
  if (wanted != "auto") {
    log::Info("kv.transport", "name={} reason=\"--kv-transport\"", wanted);
    return transfer::ParseTransport(wanted);
  }
  const bool local =
      listen.host == "localhost" || listen.host == "::1" || listen.host.starts_with("127.");
  const auto transport = local ? transfer::Transport::kUcxShm : transfer::Transport::kUcxTcp;
  log::Info("kv.transport", "name={} reason=\"auto: --listen {} is {}\"",
            transfer::ToString(transport), listen.ToString(),
            local ? "a loopback address" : "reachable from other hosts");
  return transport;
}

int Main(int argc, char** argv) {
  int sequences = 64;
  Duration itl_target{0};
  worker::NodeProgram program;
  program.name = "tandem-decode";
  program.purpose = "Takes KV cache from prefill nodes and generates tokens.";
  program.flags.name = "decode-0";
  program.flags.listen = "127.0.0.1:7200";
  // Unbound, both threads of two cores are put on one for whole steps, and prefill on the other.
  program.flags.cpus = "auto";
  program.add_flags = [&](config::ProgramOptions& options) {
    options.Add("max-sequences", "N", "sequences in one step", config::Int(&sequences, 1, 4096));
    options.Add("itl-target", "TIME",
                "in a core group, from token to token while prompts are computed; 0: 1.75 times as "
                "long as without",
                config::Seconds(&itl_target));
  };
  program.start =
      [&](const worker::LoadedModel& model,
          const worker::NodeFlags& flags) -> StatusOr<std::unique_ptr<worker::NodeService>> {
    TANDEM_ASSIGN_OR_RETURN(
        const worker::KvSize kv,
        worker::FitKv(engine::KvLayoutOf(*model.model), flags.kv_memory, TokenCount(flags.context),
                      TokenCount(model.model->config().context_length)));
    DecodeService::Options options;
    options.name = flags.name;
    TANDEM_ASSIGN_OR_RETURN(options.listen, net::ParseHostPort(flags.listen));
    TANDEM_ASSIGN_OR_RETURN(options.transport, ChooseTransport(flags.kv_transport, options.listen));
    options.num_blocks = kv.num_blocks;
    options.max_context = kv.context;
    options.step_sequences = sequences;
    options.threads = flags.threads;
    options.nice = flags.nice;
    options.cpus = flags.Cpus();
    options.core_group = flags.core_group;
    options.itl_target = itl_target;
    options.net_device = flags.kv_interface;
    return DecodeService::Start(*model.model, model.instance, options);
  };
  return worker::RunNode(argc, argv, std::move(program));
}

}  // namespace
}  // namespace tandem::decode_node

int main(int argc, char** argv) { return tandem::decode_node::Main(argc, argv); }
