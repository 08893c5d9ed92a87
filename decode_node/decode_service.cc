#include "decode_node/decode_service.h"

#include <fmt/format.h>

#include <future>
#include <utility>
#include <variant>

#include "common/log/log.h"
#include "common/worker/hello.h"
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
  config.numerics = model.numerics_class();
  TANDEM_RETURN_IF_ERROR(config.Validate());
  std::unique_ptr<DecodeService> service(new DecodeService(config));
  TANDEM_RETURN_IF_ERROR(service->Open(model, options));
  return service;
}

DecodeService::DecodeService(const DecodeConfig& config) : config_(config), core_(config) {}

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
  TANDEM_ASSIGN_OR_RETURN(engine_,
                          worker::EngineThread::Start(model, *arena_, engine, EngineEvents()));

  worker::HelloParts hello;
  hello.role = handoff::Role::kDecode;
  hello.name = config_.name;
  hello.incarnation = config_.incarnation;
  hello.model_instance = config_.model_instance;
  hello.layout = config_.layout;
  hello.numerics = engine_->numerics_class();
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
  OnStrand([this] {
    stopping_ = true;
    timer_.Cancel();
    arrivals_.Cancel();
  });
  engine_.reset();  // waits for the running step, whose batch is the core's
  io_.Stop();
}

// --- events of the parts, on the strand

KvLanding::Events DecodeService::LandingEvents() {
  KvLanding::Events events;
  events.layer_verified = [this](VerifyTicket ticket, bool ok) {
    core_.LayerVerified(SteadyNow(), ticket, ok, actions_);
    Run();
  };
  events.sink_drained = [this](PlacementKey key) {
    core_.SinkDrained(SteadyNow(), key, actions_);
    Run();
  };
  events.data_arrived = [this](PlacementKey key) {
    core_.DataArrived(SteadyNow(), key);
    Run();
  };
  events.writer_gone = [this](NodeId source) {
    core_.WriterGone(SteadyNow(), source, actions_);
    Run();
  };
  events.probe_verified = [this](NodeId source, std::uint64_t nonce, bool ok) {
    core_.ProbeVerified(SteadyNow(), source, nonce, ok, actions_);
    Run();
  };
  return events;
}

worker::EngineThread::Events DecodeService::EngineEvents() {
  worker::EngineThread::Events events;
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
      core_.RouterConnected(SteadyNow(), node, peer, actions_);
    } else {
      landing_->Connect(node, peer);
      core_.SourceConnected(SteadyNow(), node, peer, landing_->proof(), actions_);
    }
    Run();
  };
  events.lost = [this](NodeId node, handoff::Role role) {
    if (role == handoff::Role::kRouter) {
      core_.RouterLost(SteadyNow(), node, actions_);
      Run();
      return;
    }
    core_.SourceLost(SteadyNow(), node, actions_);
    Run();
    landing_->Disconnected(node);
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

void DecodeService::Run() {
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

void DecodeService::ScheduleArrivals() {
  arrivals_.Set(SteadyNow() + kArrivalsEvery, [this] {
    landing_->PollArrivals();
    ScheduleArrivals();
  });
}

// --- from outside

void DecodeService::OnStrand(std::function<void()> what) {
  std::promise<void> done;
  strand_.Post([&] {
    what();
    done.set_value();
  });
  done.get_future().wait();
}

void DecodeService::BeginDrain(std::function<void()> drained) {
  strand_.Post([this, drained = std::move(drained)]() mutable {
    drained_ = std::move(drained);
    core_.BeginDrain(SteadyNow(), actions_);
    Run();
  });
}

std::vector<handoff::NodeMetric> DecodeService::Metrics() const {
  std::vector<handoff::NodeMetric> metrics = MetricsOf(core_.stats());
  metrics.push_back({"pending_transfers", static_cast<std::int64_t>(landing_->num_pending())});
  return metrics;
}

std::string DecodeService::Report() {
  std::string out;
  std::vector<handoff::NodeMetric> metrics;
  OnStrand([&] { metrics = Metrics(); });
  for (const handoff::NodeMetric& metric : metrics) {
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", metric.name, metric.value);
  }
  return out;
}

}  // namespace tandem::decode_node
