#include "deploy/sim/pusher.h"

#include <utility>

#include "common/base/check.h"
#include "deploy/sim/token_model.h"

namespace tandem::sim {

using handoff::NodeId;
using handoff::PlacementKey;

namespace {
constexpr Duration kStuckCheck = std::chrono::milliseconds(20);  // of a write that cannot go on
}  // namespace

Pusher::Pusher(World& world, Network& network, Process& owner, Arena& arena, Events events)
    : world_(world), network_(network), owner_(owner), arena_(arena), events_(std::move(events)) {}

void Pusher::Connect(NodeId sink, DecodeProcess& process) { sinks_[sink] = {&process, true}; }

void Pusher::Do(const prefill_node::Push& push) {
  DecodeProcess& sink = *sinks_.at(push.sink).process;
  Write write;
  write.push = push;
  write.part.key = push.key;
  write.part.layer = push.layer.value();
  write.part.first_block = push.first_block;
  for (const kv::CopySpan& span : *push.spans) {
    for (std::int32_t i = 0; i < span.count.value(); ++i) {
      write.sources.push_back(kv::BlockId(span.source.value() + i));
      write.part.blocks.push_back(kv::BlockId(span.sink.value() + i));
    }
  }
  for (kv::BlockId block : write.sources) ++readers_[{write.part.layer, block}];
  if (sink.proof() == handoff::Proof::kWriter) sink.WriteBegins(push.key, write.part.blocks);
  const std::uint64_t ticket = push.ticket.value();
  const Time done = network_.BulkArrival(owner_.host(), sink.host(), push.bytes);
  writes_.emplace(ticket, std::move(write));
  owner_.After(done - world_.loop.now(), [this, ticket] { Finish(ticket); });
}

// The source is read as late as can be: its blocks must still be pinned then.
void Pusher::Read(Write& write) {
  for (kv::BlockId block : write.sources) {
    for (std::int32_t slot = 0; slot < arena_.block_size(); ++slot) {
      write.part.states.push_back(arena_.State(write.part.layer, block, slot));
    }
  }
}

// The write is over: whole, in part (`lands` false), or without a trace.
void Pusher::End(Writes::iterator it, bool lands) {
  Write write = std::move(it->second);
  DecodeProcess& sink = *sinks_.at(write.push.sink).process;
  if (write.part.states.empty()) Read(write);
  for (kv::BlockId block : write.sources) {
    const auto reader = readers_.find({write.part.layer, block});
    if (--reader->second == 0) readers_.erase(reader);
  }
  writes_.erase(it);
  if (sink.proof() == handoff::Proof::kReceives) {
    if (lands) SendData(sink, std::move(write.part));
    return;
  }
  sink.WriteEnds(write.push.key, write.part.blocks);
  if (!lands) {
    if (world_.Chance(2)) return;
    write.part.blocks.resize(write.part.blocks.size() / 2);
  }
  sink.Land(write.part);
}

void Pusher::Finish(std::uint64_t ticket) {
  auto it = writes_.find(ticket);
  if (it == writes_.end()) return;
  Write& write = it->second;
  const prefill_node::Push push = write.push;
  const Sink& sink = sinks_.at(push.sink);
  const bool aborted = aborting_.contains(push.key);
  if (sink.process->proof() == handoff::Proof::kReceives) {
    if (network_.Blocked(owner_.host(), sink.process->host()) && !aborted && sink.connected) {
      owner_.After(kStuckCheck, [this, ticket] { Finish(ticket); });
      return;
    }
    if (!sink.process->alive()) return FailLink(push.sink);
  }
  if (failing_puts_ > 0) {
    --failing_puts_;
    return FailLink(push.sink);
  }
  Read(write);
  std::uint64_t checksum = 0;
  for (std::int32_t i = 0; i < push.num_tokens.value(); ++i) {
    checksum += KvValue(write.part.states[static_cast<std::size_t>(i)], write.part.layer);
  }
  if (corrupt_puts_ > 0) {
    --corrupt_puts_;
    write.part.states[world_.random.Below(static_cast<std::uint64_t>(push.num_tokens.value()))] ^=
        1;
  }
  const bool lands = !aborted || world_.Chance(2);
  End(it, lands);
  if (lands) events_.fenced(push.ticket, push.bytes, checksum);
  if (aborted) SettleAbort(push.key);
}

// A data message: its fence says that it was sent, not that it came.
void Pusher::SendData(DecodeProcess& sink, DataPart part) {
  world_.loop.After(world_.Jitter(std::chrono::milliseconds(1)),
                    [this, &sink, part = std::move(part)]() mutable {
                      world_.loop.Execute(sink, [this, &sink, part = std::move(part)]() mutable {
                        sink.DataMessage(owner_, std::move(part));
                      });
                    });
}

// Nothing of the link is outstanding any more: what waits for an answer gets it.
void Pusher::FailLink(NodeId sink) {
  std::vector<prefill_node::PushTicket> failed;
  std::set<PlacementKey> aborted;
  for (auto it = writes_.begin(); it != writes_.end();) {
    const auto here = it++;
    if (here->second.push.sink != sink) continue;
    const prefill_node::Push push = here->second.push;
    End(here, false);
    if (aborting_.contains(push.key)) {
      aborted.insert(push.key);
    } else {
      failed.push_back(push.ticket);
    }
  }
  for (const prefill_node::PushTicket ticket : failed) events_.failed(ticket);
  for (const PlacementKey& key : aborted) SettleAbort(key);
}

void Pusher::Do(const prefill_node::AbortPush& abort) {
  aborting_.insert(abort.key);
  owner_.After(Duration(1), [this, key = abort.key] { SettleAbort(key); });
}

void Pusher::SettleAbort(const PlacementKey& key) {
  if (!aborting_.contains(key)) return;
  for (const auto& [ticket, write] : writes_) {
    if (write.push.key == key) return;
  }
  aborting_.erase(PlacementKey(key));
  events_.drained(key);
}

void Pusher::Do(const prefill_node::StartProbe& probe) {
  owner_.After(world_.Jitter(std::chrono::milliseconds(1)), [this, probe] {
    const Sink& sink = sinks_.at(probe.sink);
    if (sink.process->proof() == handoff::Proof::kReceives && sink.connected &&
        network_.Blocked(owner_.host(), sink.process->host())) {
      owner_.After(kStuckCheck, [this, probe] { Do(probe); });
      return;
    }
    bool ok = sink.connected && sink.process->alive();
    if (ok && failing_puts_ > 0) {
      --failing_puts_;
      ok = false;
    }
    events_.probed(probe.sink, probe.nonce, ok);
  });
}

void Pusher::Die() {
  while (!writes_.empty()) End(writes_.begin(), false);
  aborting_.clear();
}

}  // namespace tandem::sim
