#include "decode_node/kv_landing.h"

#include <utility>
#include <variant>

#include "common/kv/span.h"
#include "common/kv/span_checksum.h"
#include "common/log/log.h"
#include "common/worker/hello.h"
#include "common/worker/probe_pattern.h"

namespace tandem::decode_node {
namespace {

using handoff::NodeId;
using handoff::PlacementKey;
using transfer::Transport;
using worker::kArenaRegion;
using worker::kProbeBytes;
using worker::kProbeRegion;
using worker::kProbeSlots;

constexpr auto kProbeRegionBytes = static_cast<std::int64_t>(kProbeBytes * kProbeSlots);

}  // namespace

StatusOr<std::unique_ptr<KvLanding>> KvLanding::Create(const net::Strand& strand,
                                                       const Options& options, Events events) {
  std::unique_ptr<KvLanding> landing(new KvLanding(strand, options, std::move(events)));
  TANDEM_ASSIGN_OR_RETURN(landing->self_, transfer::ProcessIdentity::Self());
  transfer::SinkOptions sink;
  sink.transport = options.transport;
  sink.regions = {{.id = kArenaRegion, .length = options.layout.arena_bytes(options.num_blocks)},
                  {.id = kProbeRegion, .length = ByteCount(kProbeRegionBytes)}};
  sink.incarnation = options.incarnation.value();
  sink.net_device = options.net_device;
  sink.hub = options.hub;
  KvLanding* raw = landing.get();
  TANDEM_ASSIGN_OR_RETURN(
      landing->sink_,
      transfer::CreateSink(std::move(sink), [raw, strand](const transfer::SinkEvent& event) {
        strand.Post([raw, event] { raw->OnSinkEvent(event); });
      }));
  return landing;
}

KvLanding::KvLanding(const net::Strand& strand, const Options& options, Events events)
    : strand_(strand), options_(options), events_(std::move(events)) {}

KvLanding::~KvLanding() {
  background_.Stop();
  writers_.clear();
  sink_.reset();
}

device::MemoryRegion KvLanding::arena_memory() const {
  return {.address = sink_->memory(kArenaRegion).data(),
          .length = options_.layout.arena_bytes(options_.num_blocks)};
}

handoff::Proof KvLanding::proof() const {
  return SharesMemory() ? handoff::Proof::kWriter : handoff::Proof::kReceives;
}

// --- sources

std::optional<handoff::HelloRefused> KvLanding::Check(const handoff::Hello& source) const {
  if (options_.transport != Transport::kUcxShm) return std::nullopt;
  const transfer::ProcessIdentity peer = worker::IdentityOf(source.ranks.front());
  if (peer.host_id == self_.host_id && peer.pid_namespace == self_.pid_namespace) {
    return std::nullopt;
  }
  return handoff::HelloRefused{
      .field = "ranks",
      .reason =
          "is of another host or pid namespace, and this node takes KV by shared memory: "
          "start it with --kv-transport ucx-tcp"};
}

void KvLanding::Connect(NodeId source, const handoff::Hello& hello) {
  sources_[source] = {.incarnation = hello.incarnation, .name = hello.name};
  const transfer::SinkRange probes{
      .region = kProbeRegion, .offset = 0, .length = kProbeBytes * kProbeSlots};
  if (Status status = sink_->Expect(worker::ProbeTicket(hello.incarnation), {&probes, 1});
      !status.ok()) {
    log::Error("kv.expect.failed", "source={} error=\"{}\"", hello.name,
               FromAbsl(status.message()));
  }
  if (options_.transport == Transport::kUcxShm) Watch(source, hello);
}

void KvLanding::Watch(NodeId source, const handoff::Hello& hello) {
  auto [it, is_new] = writers_.try_emplace(source);
  if (!is_new) return;
  auto process = transfer::PeerProcess::Open(worker::IdentityOf(hello.ranks.front()));
  if (!process.ok()) {
    writers_.erase(it);
    log::Warning("kv.writer.unwatched", "source={} error=\"{}\"", hello.name,
                 FromAbsl(process.status().message()));
    // That life is over already: the proof itself.
    if (process.status().code() == absl::StatusCode::kNotFound) {
      strand_.Post([this, source] { events_.writer_gone(source); });
    }
    return;
  }
  it->second.process.emplace(*std::move(process));
  it->second.watch.emplace(strand_, it->second.process->fd(), [this, source] {
    auto writer = writers_.find(source);
    if (writer == writers_.end() || !writer->second.process->Gone()) return;
    log::Info("kv.writer.gone", "source={}", source);
    writers_.erase(writer);
    events_.writer_gone(source);
  });
}

void KvLanding::Disconnected(NodeId source) {
  auto it = sources_.find(source);
  if (it == sources_.end()) return;
  sink_->Forget(worker::ProbeTicket(it->second.incarnation));
  sources_.erase(it);
}

// --- actions

void KvLanding::Do(const Expect& expect) {
  std::vector<transfer::SinkRange> ranges;
  const auto held = static_cast<std::size_t>(expect.held.value());
  const auto runs = kv::MergeRuns(std::span(expect.blocks).subspan(held));
  const auto block_bytes = static_cast<std::uint64_t>(options_.layout.block_bytes().value());
  for (std::int32_t layer = 0; layer < options_.layout.num_layers; ++layer) {
    for (const kv::BlockRun& run : runs) {
      ranges.push_back(
          {.region = kArenaRegion,
           .offset = static_cast<std::uint64_t>(
               options_.layout.Offset(kv::Layer(layer), run.first, options_.num_blocks).value()),
           .length = block_bytes * static_cast<std::uint64_t>(run.count.value())});
    }
  }
  const transfer::Ticket ticket = worker::TicketOf(expect.key);
  if (Status status = sink_->Expect(ticket, ranges); !status.ok()) {
    // The data will be dropped and the source's fence will say so.
    log::Error("kv.expect.failed", "request={} error=\"{}\"", expect.key.request.number,
               FromAbsl(status.message()));
    return;
  }
  expected_[ticket] = {.key = expect.key};
}

void KvLanding::Do(const StopExpecting& stop) {
  const transfer::Ticket ticket = worker::TicketOf(stop.key);
  sink_->Forget(ticket);
  // Otherwise Forgotten tells.
  if (!SharesMemory() && expected_.contains(ticket)) return;
  expected_.erase(ticket);
  strand_.Post([this, key = stop.key] { events_.sink_drained(key); });
}

void KvLanding::OnSinkEvent(const transfer::SinkEvent& event) {
  const auto& forgotten = std::get<transfer::Forgotten>(event);
  auto it = expected_.find(forgotten.ticket);
  if (it == expected_.end()) return;  // a source's probes
  const PlacementKey key = it->second.key;
  expected_.erase(it);
  events_.sink_drained(key);
}

void KvLanding::PollArrivals() {
  std::vector<PlacementKey> arrived;
  for (auto& [ticket, expected] : expected_) {
    const ByteCount received = sink_->Received(ticket);
    if (received > std::exchange(expected.seen, received)) arrived.push_back(expected.key);
  }
  for (const PlacementKey& key : arrived) events_.data_arrived(key);
}

bool KvLanding::InArena(const Verify& verify) const {
  const handoff::LayerDone& done = verify.done;
  const std::int64_t room =
      static_cast<std::int64_t>(verify.blocks.size()) * options_.layout.block_size;
  if (done.first_layer.value() < 0 || done.num_layers < 1 || done.num_tokens < 0 ||
      std::int64_t{done.first_layer.value()} + done.num_layers > options_.layout.num_layers ||
      done.num_tokens > room) {
    return false;
  }
  for (const kv::BlockId block : verify.blocks) {
    if (block.value() < 0 || block.value() >= options_.num_blocks.value()) return false;
  }
  return true;
}

std::uint64_t KvLanding::ChecksumOf(const Verify& verify) const {
  const kv::KvLayout& layout = options_.layout;
  const auto block_bytes = static_cast<std::size_t>(layout.block_bytes().value());
  const std::span<const std::byte> arena = sink_->memory(kArenaRegion);
  const handoff::LayerDone& done = verify.done;
  std::uint64_t sum = 0;
  for (std::int32_t i = 0; i < done.num_layers; ++i) {
    const kv::Layer layer(done.first_layer.value() + i);
    std::int32_t left = done.num_tokens;
    TokenIndex first(done.first_block * layout.block_size);
    for (const kv::BlockId block : verify.blocks) {
      const std::int32_t here = std::min(left, layout.block_size);
      const auto offset =
          static_cast<std::size_t>(layout.Offset(layer, block, options_.num_blocks).value());
      sum += kv::SpanChecksum(layout, layer, first, here, arena.subspan(offset, block_bytes));
      left -= here;
      first += TokenIndex(here);
    }
  }
  return sum;
}

void KvLanding::Do(const Verify& verify) {
  ++verifying_;
  background_.Post([this, verify] {
    // The fence before LayerDone means that every byte is here.
    const bool ok = InArena(verify) && ChecksumOf(verify) == verify.done.checksum;
    strand_.Post([this, ticket = verify.ticket, ok, number = verify.done.key.request.number,
                  layer = verify.done.first_layer] {
      --verifying_;
      if (!ok) log::Error("kv.verify.failed", "request={} layer={}", number, layer);
      events_.layer_verified(ticket, ok);
    });
  });
}

void KvLanding::Do(const VerifyProbe& probe) {
  auto it = sources_.find(probe.source);
  bool ok = it != sources_.end() && probe.probe.bytes == ByteCount(kProbeBytes);
  if (ok) {
    const auto slot =
        sink_->memory(kProbeRegion)
            .subspan(worker::ProbeSlot(it->second.incarnation, probe.probe.nonce) * kProbeBytes,
                     kProbeBytes);
    ok = worker::ProbeChecksum(slot) == probe.probe.checksum;
  }
  strand_.Post([this, source = probe.source, nonce = probe.probe.nonce, ok] {
    events_.probe_verified(source, nonce, ok);
  });
}

}  // namespace tandem::decode_node
