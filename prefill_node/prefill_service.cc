#include "prefill_node/prefill_service.h"

#include <future>
#include <utility>
#include <variant>

#include "common/log/log.h"
#include "common/worker/hello.h"
#include "common/worker/node_metrics.h"
#include "prefill_node/stats_metrics.h"

namespace tandem::prefill_node {

using handoff::NodeId;
using handoff::PlacementKey;

StatusOr<std::unique_ptr<PrefillService>> PrefillService::Start(const model::Model& model,
                                                                const Hash128& instance,
                                                                const Options& options) {
  PrefillConfig config;
  config.name = options.name;
  config.incarnation = worker::MakeIncarnation();
  config.model_instance = instance;
  config.layout = engine::KvLayoutOf(model);
  config.num_blocks = options.num_blocks;
  config.max_context = options.max_context;
  config.step_tokens = options.step_tokens;
  config.step_sequences = options.step_sequences;
  TANDEM_RETURN_IF_ERROR(config.Validate());
  std::unique_ptr<PrefillService> service(new PrefillService(config));
  TANDEM_RETURN_IF_ERROR(service->Open(model, options));
  return service;
}

PrefillService::PrefillService(const PrefillConfig& config)
    : config_(config), loop_(strand_, config, [this](Action& action) {
        std::visit([this](auto& a) { Do(a); }, action);
      }) {}

Status PrefillService::Open(const model::Model& model, const Options& options) {
  KvPusher::Options push;
  push.layout = config_.layout;
  push.num_blocks = config_.num_blocks;
  push.incarnation = config_.incarnation;
  push.transport = options.transport;
  push.net_device = options.net_device;
  push.hub = options.hub;
  TANDEM_ASSIGN_OR_RETURN(pusher_, KvPusher::Create(strand_, push, PusherEvents()));
  TANDEM_ASSIGN_OR_RETURN(
      arena_, engine::KvArena::Over(config_.layout, config_.num_blocks, pusher_->arena_memory()));

  worker::EngineThread::Options engine;
  engine.runner.max_tokens_per_step = options.step_tokens;
  engine.runner.max_slices = options.step_sequences;
  engine.runner.max_context = options.max_context;
  engine.runner.threads = options.threads;
  engine.nice = options.nice;
  engine.runner.cpus = options.cpus;
  if (!options.core_group.empty()) {
    TANDEM_ASSIGN_OR_RETURN(
        turns_,
        worker::CoreTurns::Join(options.core_group, {.role = scheduler::TurnRole::kPrefill}));
    engine.turns = turns_.get();
  }
  TANDEM_ASSIGN_OR_RETURN(engine_,
                          worker::EngineThread::Start(model, *arena_, engine, EngineEvents()));

  worker::HelloParts hello;
  hello.role = handoff::Role::kPrefill;
  hello.name = config_.name;
  hello.incarnation = config_.incarnation;
  hello.model_instance = config_.model_instance;
  hello.layout = config_.layout;
  hello.numerics = model.numerics_identity();
  hello.capacity = {.num_blocks = config_.num_blocks,
                    .max_context = config_.max_context,
                    .max_sequences = config_.tasks_max};
  own_ = worker::MakeHello(hello);
  TANDEM_ASSIGN_OR_RETURN(handoff::RankInfo rank, worker::MakeSourceRank());
  own_.ranks.push_back(std::move(rank));
  peers_ = std::make_unique<worker::PeerTable>(io_, strand_, options.rpc, own_, PeerEvents());
  TANDEM_ASSIGN_OR_RETURN(address_, peers_->Listen(options.listen));
  return OkStatus();
}

PrefillService::~PrefillService() {
  if (peers_ != nullptr) {
    std::promise<void> closed;
    strand_.Post([&] { peers_->CloseAll([&] { closed.set_value(); }); });
    closed.get_future().wait();
  }
  loop_.Stop();
  engine_.reset();  // waits for the running step, whose batch is the core's
  io_.Stop();
}

// --- events of the parts, on the strand

KvPusher::Events PrefillService::PusherEvents() {
  KvPusher::Events events;
  events.push_fenced = [this](PushTicket ticket, ByteCount bytes, std::uint64_t checksum) {
    loop_.Call(&PrefillCore::PushFenced, ticket, bytes, checksum);
  };
  events.push_failed = [this](PushTicket ticket) { loop_.Call(&PrefillCore::PushFailed, ticket); };
  events.push_drained = [this](PlacementKey key) { loop_.Call(&PrefillCore::PushDrained, key); };
  events.probe_written = [this](NodeId sink, std::uint64_t nonce, ByteCount bytes,
                                std::uint64_t checksum) {
    loop_.Call(&PrefillCore::ProbeWritten, sink, nonce, bytes, checksum);
  };
  events.probe_failed = [this](NodeId sink, std::uint64_t nonce) {
    loop_.Call(&PrefillCore::ProbeFailed, sink, nonce);
  };
  return events;
}

worker::EngineThread::Events PrefillService::EngineEvents() {
  worker::EngineThread::Events events = loop_.EngineEvents();
  if (turns_ != nullptr) {
    events.step_done = [this, done = std::move(events.step_done)](
                           std::uint64_t step, std::vector<sequence::SampledToken> tokens,
                           Duration took) {
      TellSlice();
      done(step, std::move(tokens), took);
    };
  }
  events.layer_computed = [this](std::uint64_t step, kv::Layer layer) {
    strand_.Post([this, step, layer] { loop_.Call(&PrefillCore::LayerComputed, step, layer); });
  };
  return events;
}

// Any thread; before an event after which a step may start.
void PrefillService::TellSlice() {
  strand_.Post([this, slice = turns_->slice()] { loop_.core().SetSlice(slice); });
}

worker::PeerTable::Events PrefillService::PeerEvents() {
  worker::PeerTable::Events events;
  events.check = [this](const handoff::Hello& peer) -> std::optional<handoff::HelloRefused> {
    if (peer.role == handoff::Role::kRouter) return std::nullopt;
    if (peer.role != handoff::Role::kDecode) {
      return handoff::HelloRefused{"role", "a prefill node talks to routers and decode nodes"};
    }
    if (auto misfit = worker::CheckPair(own_, peer)) return misfit;
    return pusher_->Check(peer);
  };
  events.connected = [this](NodeId node, const handoff::Hello& peer) {
    if (peer.role == handoff::Role::kRouter) {
      loop_.Call(&PrefillCore::RouterConnected, node, peer);
      return;
    }
    pusher_->Connect(node, peer);
    loop_.Call(&PrefillCore::SinkConnected, node, peer);
  };
  events.lost = [this](NodeId node, handoff::Role role) {
    if (role == handoff::Role::kRouter) {
      loop_.Call(&PrefillCore::RouterLost, node);
      return;
    }
    loop_.Call(&PrefillCore::SinkLost, node);
    pusher_->Disconnected(node);
  };
  events.message = [this](NodeId from, handoff::Message message) {
    if (turns_ != nullptr) loop_.core().SetSlice(turns_->slice());
    loop_.Call(&PrefillCore::OnMessage, from, std::move(message));
  };
  events.heartbeat = [this](NodeId to) {
    handoff::Heartbeat heartbeat = loop_.core().MakeHeartbeat(SteadyNow(), to);
    heartbeat.metrics = Metrics();
    return heartbeat;
  };
  return events;
}

void PrefillService::Do(handoff::Send& action) {
  if (auto* heartbeat = std::get_if<handoff::Heartbeat>(&action.message)) {
    heartbeat->metrics = Metrics();
  }
  peers_->Send(action.to, action.message);
}

std::vector<handoff::NodeMetric> PrefillService::Metrics() const {
  std::vector<handoff::NodeMetric> metrics = MetricsOf(loop_.core().stats());
  worker::AppendTurns(turns_.get(), metrics);
  metrics.push_back({"pending_transfers", static_cast<std::int64_t>(pusher_->num_pending())});
  return metrics;
}

std::string PrefillService::Report() {
  std::vector<handoff::NodeMetric> metrics;
  loop_.OnStrand([&] { metrics = Metrics(); });
  return worker::ToText(metrics);
}

}  // namespace tandem::prefill_node
