// The requests that wait at the router for a node: new ones, and those to be tried again. Oldest
// first; those tried again may have to wait for their back-off and for their share of the fleet.
//
//   AddNew ────────────────► new ──┐
//   AddRetry ──► back-off ──► again ┴─► Next ──SetAside──► aside: for nodes without another suspect
//
// Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>

#include "common/base/time.h"
#include "common/handoff/deadline_queue.h"
#include "common/handoff/ids.h"

namespace tandem::router {

// How long a request waits after its `failures`-th counted failure in a row: 100 ms, doubled for
// each further one, less up to half of it. The jitter is a function of request and attempt, so that
// a history can be replayed. Requires: failures > 0.
Duration BackOff(handoff::RequestId request, handoff::Attempt attempt, std::int32_t failures);

// Retries that may be under way at once, from dispatch to their first token: a fifth of the
// unfinished requests, and always enough to keep a node's batch filled. The rest queues; none is
// refused.
constexpr std::int32_t kRetriesAtOnceMin = 16;
constexpr std::int32_t RetriesAtOnce(std::size_t unfinished) {
  const auto share = static_cast<std::int32_t>(unfinished / 5);
  return share > kRetriesAtOnceMin ? share : kRetriesAtOnceMin;
}

class WaitingRoom {
 public:
  // Numbers of requests; each is in here once at most.
  void AddNew(std::uint64_t number) { new_.insert(number); }
  // Not before `at`.
  void AddRetry(std::uint64_t number, Time now, Time at);
  // One that Next gave and that must wait for nodes of its own. Requires: added by AddRetry.
  void SetAside(std::uint64_t number);
  void Remove(std::uint64_t number);
  // Ends the back-offs that are over.
  void OnTime(Time now);

  // Who is to start now, if any.
  std::optional<std::uint64_t> Next(bool retry_may_start) const;
  std::optional<std::uint64_t> FirstNew() const;
  std::optional<std::uint64_t> FirstAside() const;
  Time NextDeadline() const { return resting_.next(); }
  std::size_t size() const { return new_.size() + num_retries(); }
  // Neither in back-off nor aside.
  std::size_t num_ready() const { return new_.size() + again_.size(); }
  std::size_t num_retries() const { return again_.size() + aside_.size() + resting_.size(); }

 private:
  std::set<std::uint64_t> new_;
  std::set<std::uint64_t> again_;
  std::set<std::uint64_t> aside_;
  handoff::DeadlineQueue<std::uint64_t> resting_;  // in back-off
};

}  // namespace tandem::router
