#include "deploy/sim/prefill_process.h"

#include <fmt/format.h>

#include <utility>

namespace tandem::sim {

using handoff::NodeId;
using handoff::PlacementKey;

PrefillProcess::PrefillProcess(World& world, NodeId id, const prefill_node::PrefillConfig& config,
                               const PrefillTiming& timing)
    : world_(world),
      id_(id),
      config_(config),
      timing_(timing),
      core_(config),
      arena_(config.layout.num_layers, config.num_blocks.value(), config.layout.block_size) {
  world_.Join(id, [this](NodeId from, handoff::Message message) {
    Do([&](prefill_node::Actions& out) {
      core_.OnMessage(world_.loop.now(), from, std::move(message), out);
    });
  });
}

void PrefillProcess::Broken(const std::string& what) {
  world_.Violate(fmt::format("{}: {}", config_.name, what));
}

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

void PrefillProcess::Do(const std::function<void(prefill_node::Actions&)>& event) {
  prefill_node::Actions out;
  event(out);
  for (prefill_node::Action& action : out) Act(action);
  const Time next = core_.NextDeadline();
  if (next == kNever || next >= timer_) return;
  timer_ = next;
  world_.loop.At(next, [this, next] {
    if (timer_ != next) return;
    timer_ = kNever;
    Do([&](prefill_node::Actions& more) { core_.OnTime(world_.loop.now(), more); });
  });
}

void PrefillProcess::ConnectRouter(NodeId router, const handoff::Hello& hello) {
  peers_.push_back(router);
  Do([&](auto& out) { core_.RouterConnected(world_.loop.now(), router, hello, out); });
}

void PrefillProcess::StartHeartbeats() {
  for (NodeId peer : peers_) {
    world_.Send(id_, peer, core_.MakeHeartbeat(world_.loop.now(), peer));
  }
  world_.loop.After(std::chrono::milliseconds(250), [this] { StartHeartbeats(); });
}

void PrefillProcess::Act(prefill_node::Action& action) {
  if (auto* a = std::get_if<handoff::Send>(&action)) {
    world_.Send(id_, a->to, std::move(a->message));
  } else if (auto* a = std::get_if<prefill_node::StartStep>(&action)) {
    RunStep(*a);
  } else if (auto* a = std::get_if<prefill_node::Push>(&action)) {
    RunPush(*a);
  } else if (auto* a = std::get_if<prefill_node::AbortPush>(&action)) {
    aborting_.insert(a->key);
    if (!writing_.contains(a->key)) Broken("AbortPush of a placement without a write");
  } else if (auto* a = std::get_if<prefill_node::StartProbe>(&action)) {
    world_.loop.After(world_.Jitter(std::chrono::milliseconds(1)),
                      [this, sink = a->sink, nonce = a->nonce] {
                        Do([&](auto& out) {
                          core_.ProbeWritten(world_.loop.now(), sink, nonce, ByteCount(64), 1, out);
                        });
                      });
  } else if (auto* a = std::get_if<prefill_node::DialSinks>(&action)) {
    Dial(*a);
  }
}

void PrefillProcess::Dial(const prefill_node::DialSinks& action) {
  for (const handoff::PeerInfo& peer : action.sinks) {
    DecodeProcess& sink = *sinks_by_name_.at(peer.name);
    if (!sinks_.emplace(sink.id(), &sink).second) continue;
    world_.loop.After(world_.Jitter(std::chrono::milliseconds(2)), [this, &sink] {
      peers_.push_back(sink.id());
      sink.ConnectSource(id_, MakeHello());
      Do([&](auto& out) {
        core_.SinkConnected(world_.loop.now(), sink.id(), sink.MakeHello(), out);
      });
    });
  }
}

void PrefillProcess::ComputeLayer(const sequence::Batch& batch, std::int32_t layer) {
  for (const sequence::Slice& slice : batch.slices) {
    std::int32_t index = slice.first.value();
    for (TokenId token : slice.tokens) {
      const auto block = static_cast<std::size_t>(index / arena_.block_size());
      if (readers_.contains({layer, slice.block_table[block]})) {
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
  Duration took = timing_.step_fixed + timing_.step_per_token * action.batch->num_tokens();
  took += world_.Jitter(took / 2);
  const std::int32_t layers = config_.layout.num_layers;
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    const bool report = world_.random.Below(10) > 0;  // StepDone covers what was not reported
    world_.loop.After(took * (layer + 1) / (layers + 1), [this, action, layer, report] {
      ComputeLayer(*action.batch, layer);
      if (!report) return;
      Do([&](auto& out) {
        core_.LayerComputed(world_.loop.now(), action.step, kv::Layer(layer), out);
      });
    });
  }
  world_.loop.After(took, [this, action, took] {
    const auto results = Sample(*action.batch);
    Do([&](auto& out) { core_.StepDone(world_.loop.now(), action.step, results, took, out); });
  });
}

void PrefillProcess::RunPush(const prefill_node::Push& action) {
  DecodeProcess& sink = SinkOf(action.sink);
  ++writing_[action.key];
  DataPart part;
  part.key = action.key;
  part.layer = action.layer.value();
  part.first_block = action.first_block;
  std::vector<kv::BlockId> sources;
  for (const kv::CopySpan& span : *action.spans) {
    for (std::int32_t i = 0; i < span.count.value(); ++i) {
      sources.push_back(kv::BlockId(span.source.value() + i));
      part.blocks.push_back(kv::BlockId(span.sink.value() + i));
    }
  }
  for (kv::BlockId block : sources) ++readers_[{part.layer, block}];
  const bool one_sided = sink.proof() == handoff::Proof::kWriter;
  if (one_sided) sink.WriteBegins(action.key, part.blocks);
  const Time done = world_.BulkArrival(id_, action.sink, action.bytes);
  // The source is read as late as can be: its blocks must still be pinned then.
  world_.loop.At(done, [this, action, &sink, one_sided, sources = std::move(sources),
                        part = std::move(part)]() mutable {
    for (kv::BlockId block : sources) {
      if (--readers_[{part.layer, block}] == 0) readers_.erase({part.layer, block});
      for (std::int32_t slot = 0; slot < arena_.block_size(); ++slot) {
        part.states.push_back(arena_.State(part.layer, block, slot));
      }
    }
    const bool aborted = aborting_.contains(action.key) && world_.random.Below(2) == 0;
    std::uint64_t checksum = 0;
    for (std::int32_t i = 0; i < action.num_tokens.value(); ++i) {
      checksum += KvValue(part.states[static_cast<std::size_t>(i)], part.layer);
    }
    if (one_sided) {
      sink.WriteEnds(action.key, part.blocks);
      if (!aborted) sink.Land(part);
    } else if (!aborted) {  // a data message: its fence says that it was sent, not that it came
      world_.loop.After(world_.Jitter(std::chrono::milliseconds(1)),
                        [&sink, part = std::move(part)] { sink.DataMessage(part); });
    }
    if (--writing_[action.key] == 0) writing_.erase(action.key);
    const bool drained = aborting_.contains(action.key) && !writing_.contains(action.key);
    if (drained) aborting_.erase(action.key);
    Do([&](auto& out) {
      const Time now = world_.loop.now();
      if (!aborted) core_.PushFenced(now, action.ticket, action.bytes, checksum, out);
      if (drained) core_.PushDrained(now, action.key, out);
    });
  });
}

void PrefillProcess::CheckAfterEvent() {
  const prefill_node::PrefillStats s = core_.stats();
  if (s.blocks.free + s.blocks.used + s.blocks.cached + s.blocks.quarantined != s.blocks.total) {
    Broken("the blocks' states do not add up");
  }
  if (s.tasks > config_.tasks_max + config_.step_sequences) Broken("more tasks than tasks_max");
  const auto most = config_.outstanding_max.value() +
                    config_.layout.bytes_per_block().value() * config_.num_blocks.value();
  if (s.outstanding_bytes > most * static_cast<std::int64_t>(sinks_.size())) {
    Broken(fmt::format("{} bytes of writes outstanding", s.outstanding_bytes));
  }
}

void PrefillProcess::CheckBooks() {
  const prefill_node::PrefillStats s = core_.stats();
  const auto left = s.blocks.used.value() + s.blocks.quarantined.value() + s.tasks + s.queued +
                    s.waiting_room + s.placements + s.draining + s.leases + s.outstanding_bytes;
  if (left == 0 && writing_.empty() && aborting_.empty()) return;
  Broken(
      fmt::format("left at the end: {} blocks used; {} tasks, {} queued, {} waiting, "
                  "{} placements, {} draining, {} leases, {} bytes outstanding",
                  s.blocks.used, s.tasks, s.queued, s.waiting_room, s.placements, s.draining,
                  s.leases, s.outstanding_bytes));
}

}  // namespace tandem::sim
