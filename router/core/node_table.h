// What the router knows of its nodes: who is there, how loaded, which pairs work; and the choice of
// a pair. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/base/hash128.h"
#include "common/handoff/events.h"
#include "common/handoff/messages.h"
#include "router/core/start_forecast.h"

namespace tandem::router {

class NodeTable {
 public:
  enum class Trial : std::uint8_t { kNo, kYes };
  struct Node {
    handoff::Hello hello;
    handoff::Heartbeat load;  // the last one, without cache changes
    std::vector<std::string> usable_sinks;
    absl::flat_hash_set<Hash128> cached;
    bool draining = false;
    bool stuck = false;           // its step takes far longer than it can
    bool on_trial = false;        // holds a request that must be alone
    bool resting = false;         // gets nothing new until its next heartbeat
    std::int32_t requests = 0;    // of this router, on their way or there
    TokenCount queued_tokens{0};  // of this router, not yet computed
    StartForecast starts;         // of this router's requests there
    std::uint64_t last_chosen = 0;
  };
  struct Pair {
    handoff::NodeId prefill;
    std::vector<std::string> ranked_sinks;  // not empty
    handoff::NodeId first_sink;
    TokenCount uncached{0};
  };

  void Add(handoff::NodeId id, const handoff::Hello& hello);
  // Its pairs end with it: a later life has to be probed first.
  void Remove(handoff::NodeId id);
  // nullptr: not connected.
  Node* Find(handoff::NodeId id);
  std::optional<handoff::NodeId> FindByName(std::string_view name) const;
  // A decode node that may be placed on.
  std::optional<handoff::NodeId> FindSink(std::string_view name) const;
  void OnHeartbeat(Node& node, const handoff::Heartbeat& heartbeat);

  // The pair for a prompt of `tokens`; `hashes_of(numerics)` gives its chain of a class, or
  // nullptr. A `trial` is of a request that must be alone. nullopt: no usable pair has a prefill
  // node that takes work now.
  template <typename HashesOf>
  std::optional<Pair> Choose(const Hash128& model_instance, TokenCount tokens, Trial trial,
                             HashesOf&& hashes_of) {
    candidates_.clear();
    for (auto& [id, node] : nodes_) {
      if (!TakesPrompts(node, model_instance, trial)) continue;
      const handoff::HashList hashes = hashes_of(node.hello.numerics);
      candidates_.push_back({id, hashes ? Held(node, *hashes) : TokenCount(0)});
    }
    if (candidates_.empty()) return std::nullopt;
    const Candidate chosen = ChoosePrefillNode(tokens);
    const handoff::HashList hashes = hashes_of(Find(chosen.id)->hello.numerics);
    return RankSinks(chosen, tokens, trial,
                     hashes ? std::span(*hashes) : std::span<const Hash128>());
  }

  // After how long a new request gets its first token at the earliest, `ahead` waiting for a node
  // already; zero where that cannot be known, or where a node is not kept busy.
  Duration FirstTokenAfter(Time now, const Hash128& model_instance, std::size_t ahead) const;

  std::int32_t UsablePairs() const;
  std::int32_t UsablePairsOf(const Node& node) const;
  handoff::Peers MakePeers() const;

  const std::map<handoff::NodeId, Node>& nodes() const { return nodes_; }

 private:
  struct Candidate {
    handoff::NodeId id;
    TokenCount cached{0};
  };
  bool PairWorks(const Node& prefill, const Node& decode) const;
  bool ServesPrompts(const Node& node, const Hash128& model_instance) const;
  bool TakesPrompts(const Node& node, const Hash128& model_instance, Trial trial) const;
  static TokenCount Held(const Node& node, std::span<const Hash128> hashes);
  Candidate ChoosePrefillNode(TokenCount tokens);
  Pair RankSinks(const Candidate& chosen, TokenCount tokens, Trial trial,
                 std::span<const Hash128> hashes);

  std::map<handoff::NodeId, Node> nodes_;  // ordered, so that every run decides alike
  std::vector<Candidate> candidates_;
  std::uint64_t choices_ = 0;
};

}  // namespace tandem::router
