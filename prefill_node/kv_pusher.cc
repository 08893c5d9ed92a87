#include "prefill_node/kv_pusher.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/kv/span_checksum.h"
#include "common/log/log.h"
#include "common/worker/hello.h"
#include "common/worker/probe_pattern.h"

namespace tandem::prefill_node {
namespace {

using handoff::NodeId;
using worker::kProbeBytes;
using worker::kProbeSlots;

kv::LayoutMap EqualLayouts(const kv::KvLayout& layout) {
  auto map = kv::LayoutMap::Make(layout, layout);
  TANDEM_CHECK(map.ok());
  return *std::move(map);
}

}  // namespace

StatusOr<std::unique_ptr<KvPusher>> KvPusher::Create(const net::Strand& strand,
                                                     const Options& options, Events events) {
  const auto probe_bytes = static_cast<std::int64_t>(kProbeBytes * kProbeSlots);
  TANDEM_ASSIGN_OR_RETURN(
      transfer::HostMemory memory,
      transfer::HostMemory::Allocate(options.layout.arena_bytes(options.num_blocks) +
                                     ByteCount(probe_bytes)));
  return std::unique_ptr<KvPusher>(
      new KvPusher(strand, options, std::move(events), std::move(memory)));
}

KvPusher::KvPusher(const net::Strand& strand, const Options& options, Events events,
                   transfer::HostMemory memory)
    : strand_(strand),
      options_(options),
      events_(std::move(events)),
      memory_(std::move(memory)),
      map_(EqualLayouts(options.layout)) {
  for (std::size_t slot = kProbeSlots; slot > 0; --slot) free_slots_.push_back(slot - 1);
}

KvPusher::~KvPusher() {
  background_.Stop();
  links_.clear();
  sources_.clear();
}

device::MemoryRegion KvPusher::arena_memory() const {
  return {.address = memory_.bytes().data(),
          .length = options_.layout.arena_bytes(options_.num_blocks)};
}

std::span<std::byte> KvPusher::ProbePage(std::size_t slot) {
  return memory_.bytes().subspan(
      static_cast<std::size_t>(arena_memory().length.value()) + slot * kProbeBytes, kProbeBytes);
}

// --- links

std::optional<handoff::HelloRefused> KvPusher::Check(const handoff::Hello& sink) const {
  const auto refuse = [](std::string reason) {
    return handoff::HelloRefused{.field = "ranks", .reason = std::move(reason)};
  };
  const StatusOr<transfer::SinkDescriptor> descriptor = worker::SinkOf(sink);
  if (!descriptor.ok()) return refuse(std::string(FromAbsl(descriptor.status().message())));
  if (options_.transport && *options_.transport != descriptor->transport) {
    return refuse(fmt::format("takes KV by {}, this node sends by {} (--kv-transport)",
                              transfer::ToString(descriptor->transport),
                              transfer::ToString(*options_.transport)));
  }
  if (descriptor->regions.size() != 2 || descriptor->regions[0].id != worker::kArenaRegion ||
      descriptor->regions[1].id != worker::kProbeRegion ||
      descriptor->regions[1].length < ByteCount(kProbeBytes * kProbeSlots)) {
    return refuse("regions are not an arena and a test region");
  }
  return std::nullopt;
}

void KvPusher::Connect(NodeId sink, const handoff::Hello& hello) {
  std::unique_ptr<Link>& link = links_[sink];
  if (link == nullptr) link = std::make_unique<Link>();
  link->hello = hello;
  link->connected = true;
}

void KvPusher::Disconnected(NodeId sink) {
  auto it = links_.find(sink);
  if (it == links_.end()) return;
  it->second->connected = false;
  DropIdleLink(sink);
}

// A link outlives its control connection while writes of it have no answer: the peer may come back.
void KvPusher::DropIdleLink(NodeId sink) {
  auto it = links_.find(sink);
  if (it == links_.end() || it->second->connected) return;
  for (const auto& [cookie, pending] : pending_) {
    if (pending.sink == sink) return;
  }
  for (const auto& [key, aborting] : aborting_) {
    if (aborting.sink == sink) return;
  }
  links_.erase(it);
}

StatusOr<transfer::Source*> KvPusher::SourceFor(transfer::Transport transport) {
  std::unique_ptr<transfer::Source>& source = sources_[transport];
  if (source == nullptr) {
    transfer::SourceOptions options;
    options.transport = transport;
    options.memory = memory_.bytes();
    options.net_device = options_.net_device;
    options.hub = options_.hub;
    TANDEM_ASSIGN_OR_RETURN(
        source, transfer::CreateSource(std::move(options),
                                       [this, strand = strand_](const transfer::SourceEvent& e) {
                                         strand.Post([this, e] { OnSourceEvent(e); });
                                       }));
  }
  return source.get();
}

StatusOr<KvPusher::Link*> KvPusher::Open(NodeId sink) {
  auto it = links_.find(sink);
  if (it == links_.end()) return Unavailable("sink {} is not connected", sink);
  Link& link = *it->second;
  if (link.data != nullptr) return &link;
  TANDEM_ASSIGN_OR_RETURN(const transfer::SinkDescriptor descriptor, worker::SinkOf(link.hello));
  TANDEM_ASSIGN_OR_RETURN(transfer::Source * source, SourceFor(descriptor.transport));
  link.id = transfer::LinkId(next_link_++);
  link.sink_blocks = kv::BlockCount(static_cast<std::int32_t>(
      descriptor.regions[0].length.value() / options_.layout.bytes_per_block().value()));
  TANDEM_ASSIGN_OR_RETURN(link.data, source->Connect(link.id, descriptor));
  log::Info("kv.link.open", "sink={} transport={} reason=\"{}\"", link.hello.name,
            transfer::ToString(descriptor.transport),
            options_.transport ? "both ends are set to it" : "the sink takes it");
  return &link;
}

KvPusher::Link* KvPusher::LinkById(transfer::LinkId id) {
  for (auto& [sink, link] : links_) {
    if (link->id == id && link->data != nullptr) return link.get();
  }
  return nullptr;
}

// --- actions

void KvPusher::Do(const Push& push) {
  const std::uint64_t cookie = next_cookie_++;
  StatusOr<Link*> link = Open(push.sink);
  Status status = link.status();
  if (status.ok()) status = Post(**link, push, cookie);
  if (!status.ok()) {
    log::Warning("kv.push.failed", "request={} layer={} error=\"{}\"", push.key.request.number,
                 push.layer, FromAbsl(status.message()));
    events_.push_failed(push.ticket);
    return;
  }
  Pending& pending = pending_[cookie];
  pending.sink = push.sink;
  pending.ticket = push.ticket;
  pending.key = push.key;
  pending.bytes = push.bytes;
  StartChecksum(push, cookie);
}

Status KvPusher::Post(Link& link, const Push& push, std::uint64_t cookie) {
  for (const kv::CopySpan& span : *push.spans) {
    // The ids came over the wire; a source's own blocks come from the core.
    if (span.sink.value() < 0 ||
        std::int64_t{span.sink.value()} + span.count.value() > link.sink_blocks.value()) {
      return InvalidArgument("block {} is not one of the sink's {}", span.sink, link.sink_blocks);
    }
  }
  std::vector<kv::BytePiece> pieces;
  map_.Pieces(push.layer, *push.spans, options_.num_blocks, link.sink_blocks, pieces);
  std::vector<transfer::Write> writes;
  writes.reserve(pieces.size());
  for (const kv::BytePiece& piece : pieces) {
    writes.push_back({.source_offset = static_cast<std::uint64_t>(piece.source.value()),
                      .region = worker::kArenaRegion,
                      .sink_offset = static_cast<std::uint64_t>(piece.sink.value()),
                      .length = static_cast<std::uint64_t>(piece.length.value())});
  }
  const transfer::Ticket ticket = worker::TicketOf(push.key);
  TANDEM_RETURN_IF_ERROR(link.data->Put(ticket, writes));
  return link.data->Fence(ticket, transfer::Cookie(cookie));
}

// Beside the transfer, of the source's bytes: both ends must find the same.
void KvPusher::StartChecksum(const Push& push, std::uint64_t cookie) {
  background_.Post([this, cookie, spans = push.spans, layer = push.layer,
                    first_token = push.first_token, num_tokens = push.num_tokens] {
    const kv::KvLayout& layout = options_.layout;
    const auto block_bytes = static_cast<std::size_t>(layout.block_bytes().value());
    std::uint64_t sum = 0;
    std::int32_t done = 0;
    for (const kv::CopySpan& span : *spans) {
      for (std::int32_t i = 0; i < span.count.value() && done < num_tokens.value(); ++i) {
        const kv::BlockId block(span.source.value() + i);
        const auto offset =
            static_cast<std::size_t>(layout.Offset(layer, block, options_.num_blocks).value());
        const std::int32_t here = std::min(num_tokens.value() - done, layout.block_size);
        sum += kv::SpanChecksum(layout, layer, TokenIndex(first_token.value() + done), here,
                                memory_.bytes().subspan(offset, block_bytes));
        done += here;
      }
    }
    strand_.Post([this, cookie, sum] { OnChecksum(cookie, sum); });
  });
}

void KvPusher::Do(const AbortPush& abort) {
  Aborting& aborting = aborting_[abort.key];
  aborting.sink = abort.sink;
  for (auto it = pending_.begin(); it != pending_.end();) {
    Pending& pending = it->second;
    if (pending.is_probe || pending.key != abort.key) {
      ++it;
    } else if (pending.checksum) {
      pending_.erase(it++);
    } else {
      pending.aborted = true;
      ++aborting.sums;
      ++it;
    }
  }
  auto link = links_.find(abort.sink);
  if (link == links_.end() || link->second->data == nullptr) {
    aborting.drained = true;  // a link that failed has nothing outstanding
  } else {
    link->second->data->Abort(worker::TicketOf(abort.key));
  }
  // Never answered inside the call that acts for the core.
  strand_.Post([this, key = abort.key] { SettleAbort(key); });
}

void KvPusher::Do(const StartProbe& probe) {
  Pending pending;
  pending.sink = probe.sink;
  pending.is_probe = true;
  pending.nonce = probe.nonce;
  StatusOr<Link*> link = Open(probe.sink);
  Status status = link.status();
  if (status.ok() && free_slots_.empty()) status = ResourceExhausted("too many probes at once");
  if (status.ok()) {
    pending.slot = free_slots_.back();
    free_slots_.pop_back();
    const std::span<std::byte> page = ProbePage(pending.slot);
    worker::FillProbe(options_.incarnation, probe.nonce, page);
    pending.checksum = worker::ProbeChecksum(page);
    const transfer::Write write{
        .source_offset = static_cast<std::uint64_t>(page.data() - memory_.bytes().data()),
        .region = worker::kProbeRegion,
        .sink_offset = worker::ProbeSlot(options_.incarnation, probe.nonce) * kProbeBytes,
        .length = kProbeBytes};
    const transfer::Ticket ticket = worker::ProbeTicket(options_.incarnation);
    const std::uint64_t cookie = next_cookie_++;
    status = (*link)->data->Put(ticket, {&write, 1});
    if (status.ok()) status = (*link)->data->Fence(ticket, transfer::Cookie(cookie));
    if (status.ok()) {
      pending_.emplace(cookie, pending);
      return;
    }
    free_slots_.push_back(pending.slot);
  }
  log::Warning("kv.probe.failed", "sink={} error=\"{}\"", probe.sink, FromAbsl(status.message()));
  strand_.Post([this, probe] { events_.probe_failed(probe.sink, probe.nonce); });
}

}  // namespace tandem::prefill_node
