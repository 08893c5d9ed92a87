#include "deploy/sim/simulation.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "deploy/sim/decode_process.h"
#include "deploy/sim/prefill_process.h"
#include "deploy/sim/router_process.h"

namespace tandem::sim {
namespace {

using handoff::Incarnation;
using handoff::NodeId;

constexpr Duration kTooLong = std::chrono::minutes(10);  // of virtual time: a hang

class Cluster {
 public:
  explicit Cluster(const SimOptions& options);
  SimReport Run();

 private:
  void Check();
  SimReport Report();

  const SimOptions options_;
  World world_;
  std::unique_ptr<RouterProcess> router_;
  std::vector<std::unique_ptr<PrefillProcess>> prefills_;
  std::vector<std::unique_ptr<DecodeProcess>> decodes_;
};

Cluster::Cluster(const SimOptions& options)
    : options_(options), world_(options.seed, options.link) {
  Hash128 model;
  model.bytes[0] = 42;
  kv::KvLayout layout;
  layout.num_layers = options.num_layers;
  layout.num_kv_heads = 1;
  layout.head_dim = 64;
  layout.block_size = options.block_size;
  const NodeId router_id(1);
  router::RouterConfig router;
  router.incarnation = Incarnation(1000);
  router_ = std::make_unique<RouterProcess>(world_, router_id, options, router, model);
  std::int32_t next = 2;
  for (std::int32_t i = 0; i < options.decode_nodes; ++i) {
    decode_node::DecodeConfig config;
    config.name = fmt::format("decode-{}", i);
    config.incarnation = Incarnation(2000 + static_cast<std::uint64_t>(i));
    config.model_instance = model;
    config.numerics = "sim";
    config.layout = layout;
    config.num_blocks = kv::BlockCount(options.decode_blocks);
    config.max_context = TokenCount(options.decode_blocks * options.block_size);
    config.step_sequences = 8;
    decodes_.push_back(std::make_unique<DecodeProcess>(world_, NodeId(next++), config,
                                                       options.proof, DecodeTiming{}));
  }
  for (std::int32_t i = 0; i < options.prefill_nodes; ++i) {
    prefill_node::PrefillConfig config;
    config.name = fmt::format("prefill-{}", i);
    config.incarnation = Incarnation(3000 + static_cast<std::uint64_t>(i));
    config.model_instance = model;
    config.layout = layout;
    config.num_blocks = kv::BlockCount(options.prefill_blocks);
    config.max_context = TokenCount(options.prefill_blocks * options.block_size);
    config.step_tokens = TokenCount(options.step_tokens);
    config.step_sequences = 4;
    config.outstanding_max = ByteCount(3 * layout.block_bytes().value());
    const NodeId id(next++);
    prefills_.push_back(std::make_unique<PrefillProcess>(world_, id, config, PrefillTiming{}));
    for (auto& sink : decodes_) prefills_.back()->Knows(*sink);
    prefills_.back()->ConnectRouter(router_id, router_->MakeHello());
  }
  std::int32_t id = 2;
  for (auto& decode : decodes_) {
    decode->ConnectRouter(router_id, router_->MakeHello());
    router_->ConnectNode(NodeId(id++), decode->MakeHello());
  }
  for (auto& prefill : prefills_) router_->ConnectNode(NodeId(id++), prefill->MakeHello());
  for (auto& prefill : prefills_) prefill->StartHeartbeats();
  for (auto& decode : decodes_) decode->StartHeartbeats();
  // After the first probes and heartbeats: every pair is known to work.
  world_.loop.After(std::chrono::milliseconds(600), [this] { router_->StartWorkload(); });
}

void Cluster::Check() {
  for (auto& prefill : prefills_) prefill->CheckAfterEvent();
  for (auto& decode : decodes_) decode->CheckAfterEvent();
}

SimReport Cluster::Run() {
  const Time start = world_.loop.now();
  while (world_.violation.empty() && !router_->finished()) {
    if (!world_.loop.Step(start + kTooLong)) {
      world_.Violate("a request did not end");
      break;
    }
    Check();
  }
  // What the ends left on the wire comes in; leases and probes included.
  const Time settled = world_.loop.now() + std::chrono::seconds(2);
  while (world_.violation.empty() && world_.loop.Step(settled)) Check();
  if (world_.violation.empty()) {
    router_->CheckBooks();
    for (auto& prefill : prefills_) prefill->CheckBooks();
    for (auto& decode : decodes_) decode->CheckBooks();
  }
  return Report();
}

SimReport Cluster::Report() {
  SimReport report;
  report.violation = world_.violation;
  report.events = world_.loop.count();
  report.virtual_time = world_.loop.now() - Time{};
  report.done = router_->done();
  report.cancelled = router_->cancelled();
  report.router = router_->core().stats();
  for (auto& prefill : prefills_) {
    const prefill_node::PrefillStats s = prefill->core().stats();
    report.prefill_nodes_used += s.computed_tokens > 0 ? 1 : 0;
    report.prefill.accepted += s.accepted;
    report.prefill.joined += s.joined;
    report.prefill.failed += s.failed;
    report.prefill.placed_again += s.placed_again;
    report.prefill.computed_tokens += s.computed_tokens;
    report.prefill.cached_tokens += s.cached_tokens;
    report.prefill.pushed_bytes += s.pushed_bytes;
    report.prefill.held_blocks += s.held_blocks;
  }
  for (auto& decode : decodes_) {
    const decode_node::DecodeStats s = decode->core().stats();
    report.decode_nodes_used += s.joined > 0 ? 1 : 0;
    report.decode.reservations += s.reservations;
    report.decode.refused_full += s.refused_full;
    report.decode.joined += s.joined;
    report.decode.preempted += s.preempted;
    report.decode.revokes += s.revokes;
    report.decode.corrupt += s.corrupt;
    report.decode.tokens += s.tokens;
  }
  return report;
}

}  // namespace

SimReport Simulate(const SimOptions& options) { return Cluster(options).Run(); }

}  // namespace tandem::sim
