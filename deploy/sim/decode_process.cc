#include "deploy/sim/decode_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "deploy/sim/token_model.h"

namespace tandem::sim {

using handoff::NodeId;
using handoff::PlacementKey;

DecodeProcess::DecodeProcess(World& world, Network& network,
                             const decode_node::DecodeConfig& config, handoff::Proof proof,
                             const DecodeTiming& timing)
    : Process(world, network, handoff::Role::kDecode, config.name, config.incarnation),
      config_(config),
      proof_(proof),
      timing_(timing),
      core_(config),
      arena_(config.layout.num_layers, config.num_blocks.value(), config.layout.block_size) {}

handoff::Hello DecodeProcess::MakeHello() const {
  handoff::Hello hello;
  hello.role = handoff::Role::kDecode;
  hello.name = config_.name;
  hello.incarnation = config_.incarnation;
  hello.model_instance = config_.model_instance;
  hello.layout = config_.layout;
  hello.numerics = config_.numerics;
  hello.capacity = {config_.num_blocks, config_.max_context, config_.step_sequences};
  return hello;
}

// --- connections

void DecodeProcess::Connected(NodeId peer, const handoff::Hello& hello, Process& process) {
  if (hello.role == handoff::Role::kRouter) {
    Do([&](auto& out) { core_.RouterConnected(now(), peer, hello, out); });
    return;
  }
  // Once a life: a writer may outlive its connection.
  if (proof_ == handoff::Proof::kWriter && watched_.insert(peer).second) {
    process.Watch(*this,
                  [this, peer] { Do([&](auto& out) { core_.WriterGone(now(), peer, out); }); });
  }
  Do([&](auto& out) { core_.SourceConnected(now(), peer, hello, proof_, out); });
}

void DecodeProcess::Lost(NodeId peer, handoff::Role role, handoff::Loss) {
  Do([&](auto& out) {
    if (role == handoff::Role::kRouter) {
      core_.RouterLost(now(), peer, out);
    } else {
      core_.SourceLost(now(), peer, out);
    }
  });
}

void DecodeProcess::Received(NodeId from, handoff::Message message) {
  if (const auto* m = std::get_if<handoff::HandOff>(&message)) handed_off_[m->key] = m->tokens;
  Do([&](auto& out) { core_.OnMessage(now(), from, std::move(message), out); });
}

handoff::Heartbeat DecodeProcess::MakeHeartbeat(NodeId to) {
  return core_.MakeHeartbeat(now(), to);
}

void DecodeProcess::BeginDrain(Duration budget) {
  Do([&](auto& out) { core_.BeginDrain(now(), budget, out); });
}

// --- time and actions

Time DecodeProcess::NextDeadline() const { return core_.NextDeadline(); }

void DecodeProcess::OnTime() {
  Do([&](auto& out) { core_.OnTime(now(), out); });
}

void DecodeProcess::Act(decode_node::Actions& actions) {
  for (decode_node::Action& action : actions) {
    if (auto* a = std::get_if<handoff::Send>(&action)) {
      if (const auto* m = std::get_if<handoff::Joined>(&a->message)) CheckJoined(m->key);
      Send(a->to, std::move(a->message));
    } else if (auto* a = std::get_if<decode_node::StartStep>(&action)) {
      RunStep(*a);
    } else if (auto* a = std::get_if<decode_node::Expect>(&action)) {
      OnExpect(*a);
    } else if (auto* a = std::get_if<decode_node::StopExpecting>(&action)) {
      OnStopExpecting(*a);
    } else if (auto* a = std::get_if<decode_node::Verify>(&action)) {
      TryVerify(*a);
    } else if (auto* a = std::get_if<decode_node::VerifyProbe>(&action)) {
      After(timing_.verify, [this, source = a->source, nonce = a->probe.nonce] {
        Do([&](auto& out) { core_.ProbeVerified(now(), source, nonce, true, out); });
      });
    }
  }
  ArmTimer();
  if (core_.drained() && !std::exchange(exiting_, true)) {
    const decode_node::DecodeStats s = core_.stats();
    if (s.reserved + s.sequences > 0) Broken("is drained and still has sequences");
    After(Duration(1), [this] { Exit(); });
  }
}

void DecodeProcess::OnExpect(const decode_node::Expect& action) {
  for (kv::BlockId block : action.blocks) {
    for (const PlacementKey& key : writers_[block.value()]) {
      if (key != action.key) {
        Broken("a block still being written was reserved for another placement");
      }
    }
  }
  expected_[action.key] = action.blocks;
}

void DecodeProcess::OnStopExpecting(const decode_node::StopExpecting& action) {
  const PlacementKey key = action.key;
  expected_.erase(key);
  handed_off_.erase(key);
  std::erase_if(landed_, [&](const auto& entry) { return std::get<0>(entry) == key; });
  std::erase_if(waiting_verifies_, [&](const auto& verify) { return verify.done.key == key; });
  if (posted_.contains(key)) {
    stopping_.insert(key);
    return;
  }
  After(world_.Jitter(timing_.verify),
        [this, key] { Do([&](auto& out) { core_.SinkDrained(now(), key, out); }); });
}

// One-sided: the bytes are there when LayerDone comes. Messages: they may still be on their way.
void DecodeProcess::TryVerify(const decode_node::Verify& action) {
  const handoff::LayerDone& done = action.done;
  const std::int32_t layer = done.first_layer.value();
  if (proof_ == handoff::Proof::kReceives && expected_.contains(done.key) &&
      !landed_.contains({done.key, layer, done.first_block})) {
    waiting_verifies_.push_back(action);
    return;
  }
  std::uint64_t sum = 0;
  for (std::int32_t i = 0; i < done.num_tokens; ++i) {
    sum += KvValue(arena_.State(layer, action.blocks, i), layer);
  }
  const bool ok = sum == done.checksum;
  After(timing_.verify + world_.Jitter(timing_.verify), [this, ok, ticket = action.ticket] {
    Do([&](auto& out) { core_.LayerVerified(now(), ticket, ok, out); });
  });
}

// --- landing

void DecodeProcess::WriteBegins(const PlacementKey& key, std::span<const kv::BlockId> blocks) {
  for (kv::BlockId block : blocks) writers_[block.value()].insert(key);
}

void DecodeProcess::WriteEnds(const PlacementKey& key, std::span<const kv::BlockId> blocks) {
  for (kv::BlockId block : blocks) {
    auto& keys = writers_[block.value()];
    if (auto it = keys.find(key); it != keys.end()) keys.erase(it);
  }
}

void DecodeProcess::Land(const DataPart& part) {
  std::size_t at = 0;
  for (kv::BlockId block : part.blocks) {
    for (std::int32_t slot = 0; slot < arena_.block_size(); ++slot) {
      arena_.State(part.layer, block, slot) = part.states[at++];
    }
  }
}

void DecodeProcess::DataMessage(Process& from, DataPart part) {
  if (!expected_.contains(part.key)) return;  // stale
  Do([&](auto&) { core_.DataArrived(now(), part.key); });
  ++posted_[part.key];
  WriteBegins(part.key, part.blocks);
  After(world_.Jitter(std::chrono::microseconds(300)),
        [this, &from, part = std::move(part)] { FinishReceive(from, part); });
}

// A receive whose sender stands still or is cut off stays posted until its endpoint is closed.
void DecodeProcess::FinishReceive(Process& from, const DataPart& part) {
  const bool stuck = from.stopped || network_.Blocked(host(), from.host());
  const bool connected = IsConnectedTo(from);
  if (stuck && connected) {
    After(std::chrono::milliseconds(20), [this, &from, part] { FinishReceive(from, part); });
    return;
  }
  const PlacementKey key = part.key;
  if (connected || !stuck) {
    Land(part);
    if (expected_.contains(key)) landed_.insert({key, part.layer, part.first_block});
  } else {
    DataPart half = part;
    half.blocks.resize(half.blocks.size() / 2);
    Land(half);
  }
  WriteEnds(key, part.blocks);
  if (--posted_[key] == 0) {
    posted_.erase(key);
    if (stopping_.erase(key) > 0) {
      Do([&](auto& out) { core_.SinkDrained(now(), key, out); });
    }
  }
  for (const decode_node::Verify& verify : std::exchange(waiting_verifies_, {})) {
    TryVerify(verify);
  }
}

// --- the engine

void DecodeProcess::RunStep(const decode_node::StartStep& action) {
  if (core_.stats().routers == 0) Broken("computes for a router that it has lost");
  Duration took = timing_.step_fixed;
  for (const sequence::Slice& slice : action.batch->slices) {
    took += timing_.step_per_sequence;
    for (kv::BlockId block : slice.block_table) {
      if (!writers_[block.value()].empty()) Broken("a running sequence's block may be written");
    }
  }
  took = StepTime(took + world_.Jitter(took));
  After(took, [this, action, took] { FinishStep(action, took); });
}

void DecodeProcess::FinishStep(const decode_node::StartStep& action, Duration took) {
  for (const sequence::Slice& slice : action.batch->slices) {
    if (Poisons(slice.sample->seed, handoff::Role::kDecode)) {
      world_.PoisonKilled();
      return Kill();
    }
  }
  if (TakeFailingStep()) {
    Do([&](auto& out) { core_.StepFailed(now(), action.step, out); });
    return;
  }
  std::vector<sequence::SampledToken> results;
  for (const sequence::Slice& slice : action.batch->slices) {
    if (Hopeless(slice.sample->seed, handoff::Role::kDecode)) continue;
    const std::int32_t index = slice.first.value();
    std::uint64_t sum = 0;
    for (std::int32_t layer = 0; layer < config_.layout.num_layers; ++layer) {
      const std::uint64_t before =
          index > 0 ? arena_.State(layer, slice.block_table, index - 1) : 0;
      arena_.State(layer, slice.block_table, index) = NextState(before, slice.tokens[0]);
      for (std::int32_t i = 0; i <= index; ++i) {
        sum += KvValue(arena_.State(layer, slice.block_table, i), layer);
      }
    }
    results.push_back({slice.tag, SampleToken(sum, slice.position, slice.sample->seed), 0});
  }
  Do([&](auto& out) { core_.StepDone(now(), action.step, results, took, out); });
}

// --- what must hold

void DecodeProcess::CheckJoined(const PlacementKey& key) {
  const auto expected = expected_.find(key);
  const auto handed_off = handed_off_.find(key);
  if (expected == expected_.end() || handed_off == handed_off_.end()) return;  // a repeat
  const TokenIds& tokens = *handed_off->second;
  std::uint64_t state = 0;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    state = NextState(state, tokens[i]);
    for (std::int32_t layer = 0; layer < config_.layout.num_layers; ++layer) {
      if (arena_.State(layer, expected->second, static_cast<std::int32_t>(i)) != state) {
        return Broken(fmt::format("a sequence joined with wrong KV of token {}", i));
      }
    }
  }
}

void DecodeProcess::CheckAfterEvent() {
  const decode_node::DecodeStats s = core_.stats();
  if (s.routers == 0 && s.reserved + s.leases > 0) {
    Broken("keeps reservations for a router that it is not connected to");
  }
  if (s.blocks.free + s.blocks.used + s.blocks.cached + s.blocks.quarantined != s.blocks.total) {
    Broken("the blocks' states do not add up");
  }
  if (s.reserved + s.sequences + s.quarantined >
      config_.reservations_max + config_.step_sequences) {
    Broken("more reservations than reservations_max");
  }
}

std::string DecodeProcess::LeftInBooks() const {
  const decode_node::DecodeStats s = core_.stats();
  const auto left = s.blocks.used.value() + s.blocks.quarantined.value() + s.reserved +
                    s.sequences + s.quarantined + s.leases + s.verifying;
  const bool timer = core_.NextDeadline() != kNever;
  const bool written = std::any_of(writers_.begin(), writers_.end(),
                                   [](const auto& entry) { return !entry.second.empty(); });
  if (left == 0 && expected_.empty() && posted_.empty() && stopping_.empty() && !timer &&
      !written) {
    return "";
  }
  return fmt::format(
      "{}: {} blocks used, {} quarantined; {} reserved, {} sequences, {} quarantined, {} leases, "
      "{} verifications, {} expected, {} posted, timer {}{}",
      name(), s.blocks.used, s.blocks.quarantined, s.reserved, s.sequences, s.quarantined, s.leases,
      s.verifying, expected_.size(), posted_.size(), timer ? "set" : "unset",
      written ? ", writes under way" : "");
}

}  // namespace tandem::sim
