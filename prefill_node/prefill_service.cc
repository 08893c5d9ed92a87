#include "prefill_node/prefill_service.h"

#include <fmt/format.h>

#include <future>
#include <utility>
#include <variant>

#include "common/log/log.h"
#include "common/worker/hello.h"
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

PrefillService::PrefillService(const PrefillConfig& config) : config_(config), core_(config) {}

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
  TANDEM_ASSIGN_OR_RETURN(engine_,
                          worker::EngineThread::Start(model, *arena_, engine, EngineEvents()));

  worker::HelloParts hello;
  hello.role = handoff::Role::kPrefill;
  hello.name = config_.name;
  hello.incarnation = config_.incarnation;
  hello.model_instance = config_.model_instance;
  hello.layout = config_.layout;
  hello.numerics = engine_->numerics_class();
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
  OnStrand([this] {
    stopping_ = true;
    timer_.Cancel();
  });
  engine_.reset();  // waits for the running step, whose batch is the core's
  io_.Stop();
}

// --- events of the parts, on the strand

KvPusher::Events PrefillService::PusherEvents() {
  KvPusher::Events events;
  events.push_fenced = [this](PushTicket ticket, ByteCount bytes, std::uint64_t checksum) {
    core_.PushFenced(SteadyNow(), ticket, bytes, checksum, actions_);
    Run();
  };
  events.push_failed = [this](PushTicket ticket) {
    core_.PushFailed(SteadyNow(), ticket, actions_);
    Run();
  };
  events.push_drained = [this](PlacementKey key) {
    core_.PushDrained(SteadyNow(), key, actions_);
    Run();
  };
  events.probe_written = [this](NodeId sink, std::uint64_t nonce, ByteCount bytes,
                                std::uint64_t checksum) {
    core_.ProbeWritten(SteadyNow(), sink, nonce, bytes, checksum, actions_);
    Run();
  };
  events.probe_failed = [this](NodeId sink, std::uint64_t nonce) {
    core_.ProbeFailed(SteadyNow(), sink, nonce, actions_);
    Run();
  };
  return events;
}

worker::EngineThread::Events PrefillService::EngineEvents() {
  worker::EngineThread::Events events;
  events.layer_computed = [this](std::uint64_t step, kv::Layer layer) {
    strand_.Post([this, step, layer] {
      core_.LayerComputed(SteadyNow(), step, layer, actions_);
      Run();
    });
  };
  events.step_done = [this](std::uint64_t step, std::vector<sequence::SampledToken> tokens,
                            Duration took) {
    strand_.Post([this, step, tokens = std::move(tokens), took] {
      core_.StepDone(SteadyNow(), step, tokens, took, actions_);
      Run();
    });
  };
  events.step_failed = [this](std::uint64_t step, Status) {
    strand_.Post([this, step] {
      core_.StepFailed(SteadyNow(), step, actions_);
      Run();
    });
  };
  return events;
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
      core_.RouterConnected(SteadyNow(), node, peer, actions_);
    } else {
      pusher_->Connect(node, peer);
      core_.SinkConnected(SteadyNow(), node, peer, actions_);
    }
    Run();
  };
  events.lost = [this](NodeId node, handoff::Role role) {
    if (role == handoff::Role::kRouter) {
      core_.RouterLost(SteadyNow(), node, actions_);
      Run();
      return;
    }
    core_.SinkLost(SteadyNow(), node, actions_);
    Run();
    pusher_->Disconnected(node);
  };
  events.message = [this](NodeId from, handoff::Message message) {
    core_.OnMessage(SteadyNow(), from, std::move(message), actions_);
    Run();
  };
  events.heartbeat = [this](NodeId to) {
    handoff::Heartbeat heartbeat = core_.MakeHeartbeat(SteadyNow(), to);
    heartbeat.metrics = Metrics();
    return heartbeat;
  };
  return events;
}

// --- actions

void PrefillService::Run() {
  if (std::exchange(running_, true)) return;  // the loop below takes what was appended
  while (!actions_.empty()) {
    Actions batch = std::exchange(actions_, {});
    for (Action& action : batch) {
      std::visit([this](auto& a) { Do(a); }, action);
    }
  }
  running_ = false;
  timer_.Set(core_.NextDeadline(), [this] {
    core_.OnTime(SteadyNow(), actions_);
    Run();
  });
  if (drained_ && core_.drained()) std::exchange(drained_, nullptr)();
}

// --- from outside

void PrefillService::OnStrand(std::function<void()> what) {
  std::promise<void> done;
  strand_.Post([&] {
    what();
    done.set_value();
  });
  done.get_future().wait();
}

void PrefillService::BeginDrain(std::function<void()> drained) {
  strand_.Post([this, drained = std::move(drained)]() mutable {
    drained_ = std::move(drained);
    core_.BeginDrain(SteadyNow(), actions_);
    Run();
  });
}

std::vector<handoff::NodeMetric> PrefillService::Metrics() const {
  std::vector<handoff::NodeMetric> metrics = MetricsOf(core_.stats());
  metrics.push_back({"pending_transfers", static_cast<std::int64_t>(pusher_->num_pending())});
  return metrics;
}

std::string PrefillService::Report() {
  std::string out;
  std::vector<handoff::NodeMetric> metrics;
  OnStrand([&] { metrics = Metrics(); });
  for (const handoff::NodeMetric& metric : metrics) {
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", metric.name, metric.value);
  }
  return out;
}

}  // namespace tandem::prefill_node
