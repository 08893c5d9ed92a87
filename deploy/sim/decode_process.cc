#include "deploy/sim/decode_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tandem::sim {

using handoff::NodeId;
using handoff::PlacementKey;

DecodeProcess::DecodeProcess(World& world, NodeId id, const decode_node::DecodeConfig& config,
                             handoff::Proof proof, const DecodeTiming& timing)
    : world_(world),
      id_(id),
      config_(config),
      proof_(proof),
      timing_(timing),
      core_(config),
      arena_(config.layout.num_layers, config.num_blocks.value(), config.layout.block_size) {
  world_.Join(id, [this](NodeId from, handoff::Message message) {
    Do([&](decode_node::Actions& out) {
      core_.OnMessage(world_.loop.now(), from, std::move(message), out);
    });
  });
}

void DecodeProcess::Broken(const std::string& what) {
  world_.Violate(fmt::format("{}: {}", config_.name, what));
}

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

void DecodeProcess::Do(const std::function<void(decode_node::Actions&)>& event) {
  decode_node::Actions out;
  event(out);
  for (decode_node::Action& action : out) Act(action);
  const Time next = core_.NextDeadline();
  if (next == kNever || next >= timer_) return;
  timer_ = next;
  world_.loop.At(next, [this, next] {
    if (timer_ != next) return;
    timer_ = kNever;
    Do([&](decode_node::Actions& more) { core_.OnTime(world_.loop.now(), more); });
  });
}

void DecodeProcess::ConnectRouter(NodeId router, const handoff::Hello& hello) {
  peers_.push_back(router);
  Do([&](auto& out) { core_.RouterConnected(world_.loop.now(), router, hello, out); });
}

void DecodeProcess::ConnectSource(NodeId source, const handoff::Hello& hello) {
  peers_.push_back(source);
  Do([&](auto& out) { core_.SourceConnected(world_.loop.now(), source, hello, proof_, out); });
}

void DecodeProcess::StartHeartbeats() {
  for (NodeId peer : peers_) {
    world_.Send(id_, peer, core_.MakeHeartbeat(world_.loop.now(), peer));
  }
  world_.loop.After(std::chrono::milliseconds(250), [this] { StartHeartbeats(); });
}

void DecodeProcess::Act(decode_node::Action& action) {
  if (auto* a = std::get_if<handoff::Send>(&action)) {
    world_.Send(id_, a->to, std::move(a->message));
  } else if (auto* a = std::get_if<decode_node::StartStep>(&action)) {
    RunStep(*a);
  } else if (auto* a = std::get_if<decode_node::Expect>(&action)) {
    for (std::size_t i = static_cast<std::size_t>(a->held.value()); i < a->blocks.size(); ++i) {
      for (const PlacementKey& key : writers_[a->blocks[i].value()]) {
        if (key != a->key) Broken("a block still being written was reserved for another placement");
      }
    }
    expected_[a->key] = a->blocks;
  } else if (auto* a = std::get_if<decode_node::StopExpecting>(&action)) {
    expected_.erase(a->key);
    std::erase_if(landed_, [&](const auto& entry) { return std::get<0>(entry) == a->key; });
    std::erase_if(waiting_verifies_, [&](const auto& verify) { return verify.done.key == a->key; });
    if (posted_[a->key] > 0) {
      stopping_.insert(a->key);
    } else {
      posted_.erase(a->key);
      world_.loop.After(world_.Jitter(timing_.verify), [this, key = a->key] {
        Do([&](auto& out) { core_.SinkDrained(world_.loop.now(), key, out); });
      });
    }
  } else if (auto* a = std::get_if<decode_node::Verify>(&action)) {
    TryVerify(*a);
  } else if (auto* a = std::get_if<decode_node::VerifyProbe>(&action)) {
    world_.loop.After(timing_.verify, [this, source = a->source, nonce = a->probe.nonce] {
      Do([&](auto& out) { core_.ProbeVerified(world_.loop.now(), source, nonce, true, out); });
    });
  }
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
  world_.loop.After(
      timing_.verify + world_.Jitter(timing_.verify), [this, ok, ticket = action.ticket] {
        Do([&](auto& out) { core_.LayerVerified(world_.loop.now(), ticket, ok, out); });
      });
}

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

void DecodeProcess::DataMessage(DataPart part) {
  if (!expected_.contains(part.key)) return;  // stale
  Do([&](auto&) { core_.DataArrived(world_.loop.now(), part.key); });
  ++posted_[part.key];
  WriteBegins(part.key, part.blocks);
  world_.loop.After(world_.Jitter(std::chrono::microseconds(300)), [this, part = std::move(part)] {
    Land(part);
    WriteEnds(part.key, part.blocks);
    const PlacementKey key = part.key;
    if (expected_.contains(key)) landed_.insert({key, part.layer, part.first_block});
    if (--posted_[key] == 0) {
      posted_.erase(key);
      if (stopping_.erase(key) > 0) {
        Do([&](auto& out) { core_.SinkDrained(world_.loop.now(), key, out); });
      }
    }
    std::vector<decode_node::Verify> again;
    std::swap(again, waiting_verifies_);
    for (const decode_node::Verify& verify : again) TryVerify(verify);
  });
}

void DecodeProcess::RunStep(const decode_node::StartStep& action) {
  Duration took = timing_.step_fixed;
  for (const sequence::Slice& slice : action.batch->slices) {
    took += timing_.step_per_sequence;
    for (kv::BlockId block : slice.block_table) {
      if (!writers_[block.value()].empty()) Broken("a running sequence's block may be written");
    }
  }
  took += world_.Jitter(took);
  world_.loop.After(took, [this, action, took] {
    std::vector<sequence::SampledToken> results;
    for (const sequence::Slice& slice : action.batch->slices) {
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
    Do([&](auto& out) { core_.StepDone(world_.loop.now(), action.step, results, took, out); });
  });
}

void DecodeProcess::CheckAfterEvent() {
  const kv::BlockCounts blocks = core_.stats().blocks;
  if (blocks.free + blocks.used + blocks.cached + blocks.quarantined != blocks.total) {
    Broken("the blocks' states do not add up");
  }
}

void DecodeProcess::CheckBooks() {
  const decode_node::DecodeStats s = core_.stats();
  const auto left = s.blocks.used.value() + s.blocks.quarantined.value() + s.reserved +
                    s.sequences + s.quarantined + s.leases + s.verifying;
  if (left == 0 && expected_.empty() && posted_.empty() && stopping_.empty()) return;
  Broken(
      fmt::format("left at the end: {} blocks used, {} quarantined; {} reserved, {} sequences, "
                  "{} quarantined, {} leases, {} verifications, {} expected, {} posted",
                  s.blocks.used, s.blocks.quarantined, s.reserved, s.sequences, s.quarantined,
                  s.leases, s.verifying, expected_.size(), posted_.size()));
}

}  // namespace tandem::sim
