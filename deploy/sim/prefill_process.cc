#include "deploy/sim/prefill_process.h"

#include <fmt/format.h>

#include <utility>

#include "deploy/sim/token_model.h"
#include "deploy/sim/trace.h"

namespace tandem::sim {

using handoff::NodeId;
using handoff::PlacementKey;

PrefillProcess::PrefillProcess(World& world, Network& network,
                               const prefill_node::PrefillConfig& config,
                               const PrefillTiming& timing)
    : Process(world, network, handoff::Role::kPrefill, config.name, config.incarnation),
      config_(config),
      timing_(timing),
      core_(config),
      arena_(config.layout.num_layers, config.num_blocks.value(), config.layout.block_size),
      pusher_(world, network, *this, arena_, PusherEvents()) {}

handoff::Hello PrefillProcess::MakeHello() const {
  handoff::Hello hello;
  hello.role = handoff::Role::kPrefill;
  hello.name = config_.name;
  hello.incarnation = config_.incarnation;
  hello.model_instance = config_.model_instance;
  hello.layout = config_.layout;
  hello.numerics = "sim";
  hello.capacity = {config_.num_blocks, config_.max_context, config_.step_sequences};
  return hello;
}

Pusher::Events PrefillProcess::PusherEvents() {
  Pusher::Events events;
  events.fenced = [this](prefill_node::PushTicket ticket, ByteCount bytes, std::uint64_t checksum) {
    Do([&](auto& out) { core_.PushFenced(now(), ticket, bytes, checksum, out); });
  };
  events.failed = [this](prefill_node::PushTicket ticket) {
    Do([&](auto& out) { core_.PushFailed(now(), ticket, out); });
  };
  events.drained = [this](PlacementKey key) {
    Do([&](auto& out) { core_.PushDrained(now(), key, out); });
  };
  events.probed = [this](NodeId sink, std::uint64_t nonce, bool ok) {
    Do([&](auto& out) {
      if (ok) {
        core_.ProbeWritten(now(), sink, nonce, ByteCount(64), 1, out);
      } else {
        core_.ProbeFailed(now(), sink, nonce, out);
      }
    });
  };
  return events;
}

// --- connections

void PrefillProcess::Connected(NodeId peer, const handoff::Hello& hello, Process& process) {
  if (hello.role == handoff::Role::kRouter) {
    Do([&](auto& out) { core_.RouterConnected(now(), peer, hello, out); });
    return;
  }
  ++num_sinks_;
  pusher_.Connect(peer, static_cast<DecodeProcess&>(process));
  Do([&](auto& out) { core_.SinkConnected(now(), peer, hello, out); });
}

void PrefillProcess::Lost(NodeId peer, handoff::Role role, handoff::Loss) {
  if (role == handoff::Role::kRouter) {
    Do([&](auto& out) { core_.RouterLost(now(), peer, out); });
    return;
  }
  pusher_.Disconnected(peer);
  Do([&](auto& out) { core_.SinkLost(now(), peer, out); });
}

void PrefillProcess::Received(NodeId from, handoff::Message message) {
  if (const auto* m = std::get_if<handoff::PlacementRefused>(&message)) refused_.insert(m->key);
  Do([&](auto& out) { core_.OnMessage(now(), from, std::move(message), out); });
}

handoff::Heartbeat PrefillProcess::MakeHeartbeat(NodeId to) {
  return core_.MakeHeartbeat(now(), to);
}

void PrefillProcess::BeginDrain(Duration budget) {
  Do([&](auto& out) { core_.BeginDrain(now(), budget, out); });
}

// --- time and actions

Time PrefillProcess::NextDeadline() const { return core_.NextDeadline(); }

void PrefillProcess::OnTime() {
  Do([&](auto& out) { core_.OnTime(now(), out); });
}

void PrefillProcess::Act(prefill_node::Actions& actions) {
  for (prefill_node::Action& action : actions) {
    FollowRules(action);
    if (auto* a = std::get_if<handoff::Send>(&action)) {
      Send(a->to, std::move(a->message));
    } else if (auto* a = std::get_if<prefill_node::StartStep>(&action)) {
      RunStep(*a);
    } else if (auto* a = std::get_if<prefill_node::Push>(&action)) {
      pusher_.Do(*a);
    } else if (auto* a = std::get_if<prefill_node::AbortPush>(&action)) {
      pusher_.Do(*a);
    } else if (auto* a = std::get_if<prefill_node::StartProbe>(&action)) {
      pusher_.Do(*a);
    } else if (auto* a = std::get_if<prefill_node::DialSinks>(&action)) {
      std::vector<std::pair<std::string, handoff::Incarnation>> peers;
      for (const handoff::PeerInfo& peer : a->sinks) {
        peers.emplace_back(peer.name, peer.incarnation);
      }
      SetDialed(peers);
    }
  }
  ArmTimer();
  if (core_.drained() && !std::exchange(exiting_, true)) {
    const prefill_node::PrefillStats s = core_.stats();
    if (s.queued + s.waiting_room + s.placements > 0) Broken("is drained and still has tasks");
    After(Duration(1), [this] { Exit(); });
  }
}

// --- the engine

void PrefillProcess::ComputeLayer(const sequence::Batch& batch, std::int32_t layer) {
  for (const sequence::Slice& slice : batch.slices) {
    std::int32_t index = slice.first.value();
    for (TokenId token : slice.tokens) {
      const auto block = static_cast<std::size_t>(index / arena_.block_size());
      if (pusher_.Reads(layer, slice.block_table[block])) {
        Broken("a block was computed anew while a push still read it");
      }
      const std::uint64_t before =
          index > 0 ? arena_.State(layer, slice.block_table, index - 1) : 0;
      arena_.State(layer, slice.block_table, index++) = NextState(before, token);
    }
  }
}

std::vector<sequence::SampledToken> PrefillProcess::Sample(const sequence::Batch& batch) {
  std::vector<sequence::SampledToken> results;
  for (const sequence::Slice& slice : batch.slices) {
    if (slice.sample == nullptr) continue;
    if (Hopeless(slice.sample->seed, handoff::Role::kPrefill)) continue;
    const auto end = slice.first.value() + static_cast<std::int32_t>(slice.tokens.size());
    std::uint64_t sum = 0;
    for (std::int32_t layer = 0; layer < config_.layout.num_layers; ++layer) {
      for (std::int32_t i = 0; i < end; ++i) {
        sum += KvValue(arena_.State(layer, slice.block_table, i), layer);
      }
    }
    results.push_back({slice.tag, SampleToken(sum, slice.position, slice.sample->seed), 0});
  }
  return results;
}

void PrefillProcess::RunStep(const prefill_node::StartStep& action) {
  if (core_.stats().routers == 0) Broken("computes for a router that it has lost");
  Duration took = timing_.step_fixed + timing_.step_per_token * action.batch->num_tokens();
  took = StepTime(took + world_.Jitter(took / 2));
  const std::int32_t layers = config_.layout.num_layers;
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    const bool report = world_.random.Below(10) > 0;  // StepDone covers what was not reported
    After(took * (layer + 1) / (layers + 1), [this, action, layer, report] {
      ComputeLayer(*action.batch, layer);
      if (!report) return;
      Do([&](auto& out) { core_.LayerComputed(now(), action.step, kv::Layer(layer), out); });
    });
  }
  After(took, [this, action, took] { FinishStep(action, took); });
}

void PrefillProcess::FinishStep(const prefill_node::StartStep& action, Duration took) {
  for (const sequence::Slice& slice : action.batch->slices) {
    if (slice.sample != nullptr && Poisons(slice.sample->seed, handoff::Role::kPrefill)) {
      world_.PoisonKilled();
      return Kill();
    }
  }
  if (TakeFailingStep()) {
    Do([&](auto& out) { core_.StepFailed(now(), action.step, out); });
    return;
  }
  const auto results = Sample(*action.batch);
  Do([&](auto& out) { core_.StepDone(now(), action.step, results, took, out); });
}

// --- what must hold

// A placement that the router refused is given up at once.
void PrefillProcess::FollowRules(const prefill_node::Action& action) {
  if (refused_.empty()) return;
  const PlacementKey* goes_on = nullptr;
  if (const auto* push = std::get_if<prefill_node::Push>(&action)) {
    goes_on = &push->key;
  } else if (const auto* send = std::get_if<handoff::Send>(&action)) {
    if (const auto* renew = std::get_if<handoff::Renew>(&send->message)) {
      for (const PlacementKey& key : renew->live) {
        if (refused_.contains(key)) goes_on = &key;
      }
    }
  }
  if (goes_on != nullptr && refused_.contains(*goes_on)) {
    Broken(fmt::format("placement {} goes on although the router refused it", Describe(*goes_on)));
  }
}

void PrefillProcess::CheckAfterEvent() {
  const prefill_node::PrefillStats s = core_.stats();
  if (s.routers == 0 && s.queued + s.waiting_room + s.placements + s.leases > 0) {
    Broken("keeps tasks of a router that it has lost");
  }
  if (s.blocks.free + s.blocks.used + s.blocks.cached + s.blocks.quarantined != s.blocks.total) {
    Broken("the blocks' states do not add up");
  }
  if (s.tasks > config_.tasks_max + config_.step_sequences) Broken("more tasks than tasks_max");
  const auto most = config_.outstanding_max.value() +
                    config_.layout.bytes_per_block().value() * config_.num_blocks.value();
  if (s.outstanding_bytes > most * static_cast<std::int64_t>(num_sinks_)) {
    Broken(fmt::format("{} bytes of writes outstanding", s.outstanding_bytes));
  }
}

std::string PrefillProcess::LeftInBooks() const {
  const prefill_node::PrefillStats s = core_.stats();
  const auto left = s.blocks.used.value() + s.blocks.quarantined.value() + s.tasks + s.queued +
                    s.waiting_room + s.placements + s.draining + s.leases + s.outstanding_bytes;
  if (left == 0 && pusher_.num_pending() == 0) return "";
  return fmt::format(
      "{}: {} blocks used; {} tasks, {} queued, {} waiting, {} placements, {} draining, {} leases, "
      "{} bytes outstanding, {} transfers pending",
      name(), s.blocks.used, s.tasks, s.queued, s.waiting_room, s.placements, s.draining, s.leases,
      s.outstanding_bytes, pusher_.num_pending());
}

}  // namespace tandem::sim
