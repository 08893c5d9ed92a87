// What the protocol asks of a router, judged by its messages alone (common/handoff/PROTOCOL.md):
// every Placed is answered; a placement is noted only on a connected node, after a Cancel to the
// decode node of an earlier one; a new attempt, and an end before the last token, come after a
// Cancel to every node that may hold the old attempt; after a failure that counts a request rests.
//
// For each event of the router: Received (if it was a message), then Sent and Finished for each of
// its actions in their order, then Check.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/base/time.h"
#include "common/handoff/events.h"
#include "common/handoff/messages.h"

namespace tandem::sim {

class RouterRules {
 public:
  void Connected(handoff::NodeId node, std::string name) { nodes_[node] = std::move(name); }
  void Lost(handoff::NodeId node);
  void Received(Time now, handoff::NodeId from, const handoff::Message& message);
  void Sent(Time now, handoff::NodeId to, const handoff::Message& message);
  // `early`: before its last token.
  void Finished(handoff::RequestId request, bool early);
  // Which rule the event has broken; empty: none.
  std::string Check();

 private:
  // An attempt that nodes may hold; a node of 0 holds it no more.
  struct Attempt {
    handoff::Attempt number{0};
    handoff::NodeId prefill{0};
    handoff::NodeId decode{0};  // of `noted`
    handoff::Placement noted{0};
    bool heard_decode = false;
    Time rests_until{};
  };
  void OnFailure(Time now, Attempt& attempt, handoff::Reason reason);
  void OnCancel(handoff::NodeId to, const handoff::PlacementKey& key);
  void OnPrefill(Time now, handoff::NodeId to, const handoff::Prefill& message);
  void OnNoted(const handoff::PlacementKey& key);
  void MustBeGone(const Attempt& attempt, std::uint64_t request, const char* before);
  void Break(std::string what);

  std::map<handoff::NodeId, std::string> nodes_;  // connected
  std::map<std::uint64_t, Attempt> attempts_;     // the last of each request
  std::optional<handoff::Placed> to_answer_;      // of the event under way
  handoff::NodeId placed_by_{0};
  std::string broken_;
};

}  // namespace tandem::sim
