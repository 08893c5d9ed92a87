// Moves KV bytes from a source's memory into regions of a sink, over one of several transports.
//
//   sink process                                      source process
//   CreateSink(options)                               CreateSource(options)
//   descriptor() ────────── in Hello ───────────────► Connect(link, descriptor) → LinkReady
//   Expect(ticket, ranges)                            Put(ticket, writes)…
//                     ◄═══════ bytes ═══════          Fence(ticket, cookie)     → Fenced
//   Forget(ticket) → Forgotten                        Abort(ticket)             → Drained
//
// A *ticket* names one stream of writes, the same on both ends (one placement of one attempt of one
// request; a probe). Where a transport can, the sink takes only bytes whose ticket it expects, and
// only into that ticket's ranges; everything else is dropped and counted.
//
// Threads: every method may be called from any thread and none blocks, but for constructors and
// destructors. Events come on the transport's own completion thread; the function given must only
// hand them on, and must destroy neither the object that delivers them nor a link of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/base/strong_int.h"
#include "common/base/time.h"
#include "common/base/units.h"
#include "kv_transfer/process_identity.h"

namespace tandem::transfer {

// Whether [offset, offset + length) lies in [0, bytes); sums that overflow do not.
inline bool Inside(std::uint64_t offset, std::uint64_t length, std::uint64_t bytes) {
  return length <= bytes && offset <= bytes - length;
}

enum class Transport : std::uint8_t { kLoopback = 1, kUcxShm = 2, kUcxTcp = 3 };
std::string_view ToString(Transport transport);  // "loopback", "ucx-shm", "ucx-tcp"
StatusOr<Transport> ParseTransport(std::string_view name);

struct LinkIdTag {};
struct RegionIdTag {};
struct CookieTag {};
using LinkId = StrongInt<LinkIdTag, std::uint64_t>;  // chosen by the caller, unique in its source
using RegionId = StrongInt<RegionIdTag, std::uint32_t>;
using Cookie = StrongInt<CookieTag, std::uint64_t>;  // handed back unchanged

// 192 bits that never come twice: (router incarnation, request number, attempt << 32 | placement).
struct Ticket {
  std::uint64_t scope = 0;
  std::uint64_t number = 0;
  std::uint64_t part = 0;
  auto operator<=>(const Ticket&) const = default;
};
template <typename H>
H AbslHashValue(H state, const Ticket& t) {
  return H::combine(std::move(state), t.scope, t.number, t.part);
}

struct RegionDescriptor {
  RegionId id{0};
  ByteCount length{0};
  std::string key;  // opaque; lets its holder write the region: never logged
};

// How to write to one sink. Travels in its Hello.
struct SinkDescriptor {
  Transport transport = Transport::kLoopback;
  std::string address;  // opaque
  ProcessIdentity process;
  std::uint64_t incarnation = 0;
  std::vector<RegionDescriptor> regions;
};

// `length` bytes from `source_offset` of the source's memory to `sink_offset` of a sink's region.
struct Write {
  std::uint64_t source_offset = 0;
  RegionId region{0};
  std::uint64_t sink_offset = 0;
  std::uint64_t length = 0;
};
struct SinkRange {
  RegionId region{0};
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

// --- source
// -------------------------------------------------------------------------------------------------

// The link passed its checks (transport, incarnation) and will carry what was Put.
struct LinkReady {
  LinkId link;
};
// Every write of `ticket` put before the fence is in the sink's memory (`status` ok), or the sink
// has dropped bytes of it (FailedPrecondition: it does not expect the ticket there any more).
struct Fenced {
  LinkId link;
  Ticket ticket;
  Cookie cookie;
  Status status;
};
// After Abort: no write of `ticket` is outstanding at this end, none will be made. (What a network
// still holds, a sink that can check drops once it forgets the ticket: see DrainProof.)
struct Drained {
  LinkId link;
  Ticket ticket;
};
// The last event of a link. No write of any of its tickets is outstanding or will be made; fences
// and aborts without an event will get none.
struct LinkFailed {
  LinkId link;
  Status reason;
};
using SourceEvent = std::variant<LinkReady, Fenced, Drained, LinkFailed>;
using SourceEventFn = std::function<void(const SourceEvent&)>;

struct LinkStats {
  ByteCount written{0};  // handed over since Connect
  ByteCount queued{0};   // put, not yet handed over
};

// One connection of a source to one sink. Order: Put before a Fence of its ticket is covered by it.
class SourceLink {
 public:
  // Ends the link as a failure would, with no event; returns when none of its writes is
  // outstanding.
  virtual ~SourceLink() = default;

  // Queues all of `writes` or none. The source's bytes stay unchanged until Fenced, Drained or
  // LinkFailed. May be called before LinkReady. Requires: `ticket` was not aborted.
  // Errors: InvalidArgument when a write leaves the source's memory or the sink's region;
  // ResourceExhausted when the queue is full (try after the next Fenced); Unavailable: link failed.
  virtual Status Put(const Ticket& ticket, std::span<const Write> writes) = 0;
  // Errors: as Put's last two.
  virtual Status Fence(const Ticket& ticket, Cookie cookie) = 0;
  // Stops writing for `ticket`, drops its queued writes and fences, then Drained. A peer that takes
  // no bytes for `Options::drain_timeout` costs the whole link: LinkFailed follows Drained.
  // Always answered, by Drained or LinkFailed; after LinkFailed it does nothing.
  virtual void Abort(const Ticket& ticket) = 0;
  virtual LinkStats stats() const = 0;
};

class Source {
 public:
  // Requires: its links are gone.
  virtual ~Source() = default;
  // Errors: InvalidArgument, FailedPrecondition (other transport, other host for shared memory,
  // dead process) naming what does not fit; later trouble is LinkFailed.
  virtual StatusOr<std::unique_ptr<SourceLink>> Connect(LinkId link,
                                                        const SinkDescriptor& sink) = 0;
};

// --- sink
// ---------------------------------------------------------------------------------------------------

// After Forget: nothing of `ticket` can be written by this transport any more.
struct Forgotten {
  Ticket ticket;
};
using SinkEvent = std::variant<Forgotten>;
using SinkEventFn = std::function<void(const SinkEvent&)>;

// Who can prove that a ticket's memory will not be written any more.
enum class DrainProof : std::uint8_t {
  kSink = 1,   // the sink itself: Forget is answered by Forgotten
  kWriter = 2  // only the writer's word (Drained at its source) or its death (PeerProcess): shared
               // memory. Forget is not answered.
};

struct SinkStats {
  ByteCount received{0};  // taken; always 0 where the sink is not told (shared memory)
  ByteCount dropped{0};   // stale or out of range
  std::uint64_t dropped_messages = 0;
};

class Sink {
 public:
  virtual ~Sink() = default;

  virtual const SinkDescriptor& descriptor() const = 0;
  // The bytes of a region: zero at first, aligned to a page, there until the sink is destroyed.
  // Requires: `id` was given in SinkOptions.
  virtual std::span<std::byte> memory(RegionId id) = 0;
  virtual DrainProof drain_proof() const = 0;

  // Takes bytes of `ticket` into `ranges` from now on; a repetition replaces the ranges.
  // Errors: InvalidArgument when a range leaves its region.
  virtual Status Expect(const Ticket& ticket, std::span<const SinkRange> ranges) = 0;
  virtual void Forget(const Ticket& ticket) = 0;
  // Bytes taken for an expected ticket so far (arriving data renews a lease); 0 for others, and
  // always where the sink is not told.
  virtual ByteCount Received(const Ticket& ticket) const = 0;
  virtual SinkStats stats() const = 0;
};

}  // namespace tandem::transfer
