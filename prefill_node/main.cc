// tandem-prefill: turns prompts into KV cache and writes it into decode nodes.
#include "common/worker/node_program.h"
#include "prefill_node/prefill_service.h"

namespace tandem::prefill_node {
namespace {

// Below decoding on a shared host: a decode step is short, and every stream waits for it. Its
// threads go where there is time, for a prompt is long and other programs may hold a core.
constexpr int kNice = 6;

int Main(int argc, char** argv) {
  int batch_tokens = 512;
  worker::NodeProgram program;
  program.name = "tandem-prefill";
  program.purpose = "Turns prompts into KV cache and streams it into decode nodes.";
  program.flags.name = "prefill-0";
  program.flags.listen = "127.0.0.1:7100";
  program.flags.nice = kNice;
  program.add_flags = [&](config::ProgramOptions& options) {
    options.Add("max-batch-tokens", "TOKENS", "prompt tokens in one step",
                config::Int(&batch_tokens, 16, 1 << 16));
  };
  program.start =
      [&](const worker::LoadedModel& model,
          const worker::NodeFlags& flags) -> StatusOr<std::unique_ptr<worker::NodeService>> {
    TANDEM_ASSIGN_OR_RETURN(
        const worker::KvSize kv,
        worker::FitKv(engine::KvLayoutOf(*model.model), flags.kv_memory, TokenCount(flags.context),
                      TokenCount(model.model->config().context_length)));
    PrefillService::Options options;
    options.name = flags.name;
    TANDEM_ASSIGN_OR_RETURN(options.listen, net::ParseHostPort(flags.listen));
    options.num_blocks = kv.num_blocks;
    options.max_context = kv.context;
    options.step_tokens = TokenCount(batch_tokens);
    options.threads = flags.threads;
    options.nice = flags.nice;
    options.cpus = flags.Cpus();
    options.core_group = flags.core_group;
    options.net_device = flags.kv_interface;
    if (flags.kv_transport != "auto") {
      TANDEM_ASSIGN_OR_RETURN(options.transport, transfer::ParseTransport(flags.kv_transport));
    }
    return PrefillService::Start(*model.model, model.instance, options);
  };
  return worker::RunNode(argc, argv, std::move(program));
}

}  // namespace
}  // namespace tandem::prefill_node

int main(int argc, char** argv) { return tandem::prefill_node::Main(argc, argv); }
