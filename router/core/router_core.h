// The router's decisions: owns every request, chooses nodes, numbers attempts, forwards each
// position once, ends what must end.
//
// Pure: events with a time in, actions appended to `out`; no sockets, threads or clock. Call
// OnTime at NextDeadline() (or later). Not thread-safe: one strand.
//
//   core.Submit(now, std::move(spec), out);         // → Send{P, Prefill}, or it waits in the queue
//   core.OnMessage(now, p, FirstToken{…}, out);     // → Deliver
//   core.OnMessage(now, d, Tokens{…}, out);         // → Deliver, …, Finished
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/handoff/events.h"
#include "router/core/actions.h"

namespace tandem::router {

struct RouterConfig {
  handoff::Incarnation incarnation;
  std::int32_t requests_max = 4096;  // unfinished ones
  std::int32_t queued_max = 1024;    // of these, waiting for a usable pair
  // How long a new request waits while no pair works, before it ends as unavailable. One that was
  // begun waits until its deadline.
  Duration no_pair_wait = Duration::max();
  // Errors: InvalidArgument naming the field.
  Status Validate() const;
};

// Block hashes of one numerics class: their root and one per full granule of the prompt.
struct ClassHashes {
  std::string numerics;
  Hash128 root;
  handoff::HashList hashes;
};

struct RequestSpec {
  handoff::RequestId id;  // of this router's incarnation; numbers are never used again
  Hash128 model_instance;
  handoff::TokenList tokens;        // the prompt; not empty
  std::vector<ClassHashes> hashes;  // of the classes in use; a class not listed gets no prefix hits
  sequence::SamplingParams params;
  Deadline deadline;
};

// One connected node, for `/metrics` and the console.
struct NodeView {
  std::string name;
  handoff::Role role = handoff::Role::kPrefill;
  handoff::Incarnation incarnation;
  std::int32_t requests = 0;  // of this router, that involve it
  handoff::Heartbeat load;    // the last one, without cache changes
  std::int32_t usable_pairs = 0;
  bool draining = false;
  bool stuck = false;  // its step takes far longer than it can
};

// All zero but the first block when nothing is left to do. Counters only grow.
struct RouterStats {
  std::int32_t nodes = 0;
  std::int32_t usable_pairs = 0;

  std::int32_t requests = 0;           // unfinished
  std::int32_t queued = 0;             // of these, waiting for a pair
  std::int32_t retries_queued = 0;     // of these, begun before
  std::int32_t retries_under_way = 0;  // new attempts without a token yet

  std::int64_t submitted = 0;
  std::int64_t refused = 0;
  std::int64_t refused_late = 0;  // of these, the queue being longer than their deadline
  std::int64_t finished = 0;
  std::int64_t failed = 0;
  std::int64_t cancelled = 0;
  std::int64_t attempts = 0;
  std::int64_t placements_noted = 0;
  std::int64_t positions = 0;          // delivered
  std::int64_t repeats = 0;            // positions that came again, equal
  std::int64_t repeats_different = 0;  // … and differed: same request, other bytes
  std::int64_t gaps = 0;               // positions beyond the next one, taken as a loss
  std::int64_t stale_messages = 0;
  std::int64_t placed_again = 0;  // noted after another one of the same attempt
  std::int64_t nodes_lost = 0;
  std::int64_t nodes_stuck = 0;
};

class RouterCore {
 public:
  // Requires: config.Validate().ok().
  explicit RouterCore(const RouterConfig& config);
  ~RouterCore();
  RouterCore(const RouterCore&) = delete;
  RouterCore& operator=(const RouterCore&) = delete;

  // A node's Hello came (and fits). A node that is known and not lost is replaced.
  void NodeConnected(Time now, handoff::NodeId node, const handoff::Hello& hello, Actions& out);
  void NodeLost(Time now, handoff::NodeId node, handoff::Loss loss, Actions& out);
  // Heartbeats too. A message that makes no sense is counted and dropped.
  void OnMessage(Time now, handoff::NodeId node, handoff::Message message, Actions& out);

  // Errors, the request being unknown afterwards: InvalidArgument (id, tokens or params);
  // ResourceExhausted (bounds of RouterConfig; a queue that is longer than the deadline, where that
  // is sure: StartForecast); Cancelled (stopping).
  Status Submit(Time now, RequestSpec spec, Actions& out);
  // Unknown ids are ignored by these: the request may just have ended.
  void ClientGone(Time now, handoff::RequestId request, Actions& out);  // → Finished{Cancelled}
  // A stop string was complete with `position`; later positions are not for the client.
  void StopMatched(Time now, handoff::RequestId request, Position position,
                   Actions& out);  // → Finished{kStop}
  // The client's stream has room for as many more positions: becomes Credit for the decode node.
  void ClientConsumed(Time now, handoff::RequestId request, std::int32_t positions, Actions& out);

  // Whether Submit() would take another request. Errors: as there.
  Status Admission() const;
  // After how long a request that was refused would probably begin, by what waits and how many
  // requests ended per second lately; 1 s … 60 s.
  Duration RetryAfter(Time now) const;

  // Asks a node to finish what it has and to take nothing new.
  void DrainNode(Time now, handoff::NodeId node, Duration budget, Actions& out);
  // Takes no more requests; cancels all with `reason` (not OK).
  void Stop(Time now, const Status& reason, Actions& out);

  void OnTime(Time now, Actions& out);
  Time NextDeadline() const;  // kNever: nothing to wait for

  bool ready() const;  // a usable pair exists
  RouterStats stats() const;
  std::vector<NodeView> nodes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::router
