#include "decode_node/decode_service.h"

#include <future>
#include <utility>
#include <variant>

#include "common/log/log.h"
#include "common/worker/hello.h"
#include "common/worker/node_metrics.h"
#include "decode_node/stats_metrics.h"

namespace tandem::decode_node {

using handoff::NodeId;
using handoff::PlacementKey;

namespace {
// A lease is 5 s: arriving data is noticed well before it ends.
constexpr Duration kArrivalsEvery = std::chrono::milliseconds(500);
}  // namespace

StatusOr<std::unique_ptr<DecodeService>> DecodeService::Start(const model::Model& model,
                                                              const Hash128& instance,
                                                              const Options& options) {
  DecodeConfig config;
  config.name = options.name;
  config.incarnation = worker::MakeIncarnation();
  config.model_instance = instance;
  config.layout = engine::KvLayoutOf(model);
  config.num_blocks = options.num_blocks;
  config.max_context = options.max_context;
  config.step_sequences = options.step_sequences;
  config.numerics = model.numerics_identity();
  TANDEM_RETURN_IF_ERROR(config.Validate());
  std::unique_ptr<DecodeService> service(new DecodeService(config));
  TANDEM_RETURN_IF_ERROR(service->Open(model, options));
  return service;
}

DecodeService::DecodeService(const DecodeConfig& config)
    : config_(config), loop_(strand_, config, [this](Action& action) {
        std::visit([this](auto& a) { Do(a); }, action);
      }) {}

Status DecodeService::Open(const model::Model& model, const Options& options) {
  KvLanding::Options land;
  land.layout = config_.layout;
  land.num_blocks = config_.num_blocks;
  land.incarnation = config_.incarnation;
  land.transport = options.transport;
  land.net_device = options.net_device;
  land.hub = options.hub;
  TANDEM_ASSIGN_OR_RETURN(landing_, KvLanding::Create(strand_, land, LandingEvents()));
  TANDEM_ASSIGN_OR_RETURN(
      arena_, engine::KvArena::Over(config_.layout, config_.num_blocks, landing_->arena_memory()));

  worker::EngineThread::Options engine;
  engine.runner.max_tokens_per_step = TokenCount(options.step_sequences);
  engine.runner.max_slices = options.step_sequences;
  engine.runner.max_context = options.max_context;
  engine.runner.threads = options.threads;
  engine.nice = options.nice;
  engine.runner.cpus = options.cpus;
  if (!options.core_group.empty()) {
    TANDEM_ASSIGN_OR_RETURN(
        turns_, worker::CoreTurns::Join(options.core_group, {.role = scheduler::TurnRole::kDecode,
                                                             .itl_target = options.itl_target}));
    engine.turns = turns_.get();
  }
  TANDEM_ASSIGN_OR_RETURN(
      engine_, worker::EngineThread::Start(model, *arena_, engine, loop_.EngineEvents()));

  worker::HelloParts hello;
  hello.role = handoff::Role::kDecode;
  hello.name = config_.name;
  hello.incarnation = config_.incarnation;
  hello.model_instance = config_.model_instance;
  hello.layout = config_.layout;
  hello.numerics = config_.numerics;
  hello.capacity = {.num_blocks = config_.num_blocks,
                    .max_context = config_.max_context,
                    .max_sequences = config_.reservations_max};
  own_ = worker::MakeHello(hello);
  own_.ranks.push_back(worker::MakeSinkRank(landing_->descriptor()));
  peers_ = std::make_unique<worker::PeerTable>(io_, strand_, options.rpc, own_, PeerEvents());
  TANDEM_ASSIGN_OR_RETURN(address_, peers_->Listen(options.listen));
  if (landing_->proof() == handoff::Proof::kReceives) {
    strand_.Post([this] { ScheduleArrivals(); });
  }
  return OkStatus();
}

DecodeService::~DecodeService() {
  if (peers_ != nullptr) {
    std::promise<void> closed;
    strand_.Post([&] { peers_->CloseAll([&] { closed.set_value(); }); });
    closed.get_future().wait();
  }
  loop_.Stop();
  loop_.OnStrand([this] { arrivals_.Cancel(); });
  engine_.reset();  // waits for the running step, whose batch is the core's
  io_.Stop();
}

// --- events of the parts, on the strand

KvLanding::Events DecodeService::LandingEvents() {
  KvLanding::Events events;
  events.layer_verified = [this](VerifyTicket ticket, bool ok) {
    loop_.Call(&DecodeCore::LayerVerified, ticket, ok);
  };
  events.sink_drained = [this](PlacementKey key) { loop_.Call(&DecodeCore::SinkDrained, key); };
  events.data_arrived = [this](PlacementKey key) {
    loop_.Call([](DecodeCore& core, Time now, PlacementKey arrived,
                  Actions&) { core.DataArrived(now, arrived); },
               key);
  };
  events.writer_gone = [this](NodeId source) { loop_.Call(&DecodeCore::WriterGone, source); };
  events.probe_verified = [this](NodeId source, std::uint64_t nonce, bool ok) {
    loop_.Call(&DecodeCore::ProbeVerified, source, nonce, ok);
  };
  return events;
}

worker::PeerTable::Events DecodeService::PeerEvents() {
  worker::PeerTable::Events events;
  events.check = [this](const handoff::Hello& peer) -> std::optional<handoff::HelloRefused> {
    if (peer.role == handoff::Role::kRouter) return std::nullopt;
    if (peer.role != handoff::Role::kPrefill) {
      return handoff::HelloRefused{"role", "a decode node talks to routers and prefill nodes"};
    }
    if (auto misfit = worker::CheckPair(own_, peer)) return misfit;
    return landing_->Check(peer);
  };
  events.connected = [this](NodeId node, const handoff::Hello& peer) {
    if (peer.role == handoff::Role::kRouter) {
      loop_.Call(&DecodeCore::RouterConnected, node, peer);
      return;
    }
    landing_->Connect(node, peer);
    loop_.Call(&DecodeCore::SourceConnected, node, peer, landing_->proof());
  };
  events.lost = [this](NodeId node, handoff::Role role) {
    if (role == handoff::Role::kRouter) {
      loop_.Call(&DecodeCore::RouterLost, node);
      return;
    }
    loop_.Call(&DecodeCore::SourceLost, node);
    landing_->Disconnected(node);
  };
  events.message = [this](NodeId from, handoff::Message message) {
    loop_.Call(&DecodeCore::OnMessage, from, std::move(message));
  };
  events.heartbeat = [this](NodeId to) {
    handoff::Heartbeat heartbeat = loop_.core().MakeHeartbeat(SteadyNow(), to);
    heartbeat.metrics = Metrics();
    return heartbeat;
  };
  return events;
}

void DecodeService::Do(handoff::Send& action) {
  if (auto* heartbeat = std::get_if<handoff::Heartbeat>(&action.message)) {
    heartbeat->metrics = Metrics();
  }
  peers_->Send(action.to, action.message);
}

void DecodeService::ScheduleArrivals() {
  arrivals_.Set(SteadyNow() + kArrivalsEvery, [this] {
    landing_->PollArrivals();
    ScheduleArrivals();
  });
}

std::vector<handoff::NodeMetric> DecodeService::Metrics() const {
  std::vector<handoff::NodeMetric> metrics = MetricsOf(loop_.core().stats());
  worker::AppendTurns(turns_.get(), metrics);
  metrics.push_back({"pending_transfers", static_cast<std::int64_t>(landing_->num_pending())});
  return metrics;
}

std::string DecodeService::Report() {
  std::vector<handoff::NodeMetric> metrics;
  loop_.OnStrand([&] { metrics = Metrics(); });
  return worker::ToText(metrics);
}

}  // namespace tandem::decode_node
