#include "router/core/node_table.h"

#include <algorithm>

#include "common/kv/block_hash.h"
#include "common/scheduler/node_choice.h"

namespace tandem::router {
namespace {

using handoff::NodeId;
using handoff::Role;

constexpr std::size_t kCachedMax = 1 << 18;  // hashes remembered of one node

scheduler::StepTime FitOf(const handoff::Heartbeat& load) {
  return {load.fit.fixed_s, load.fit.per_token_s, load.fit.per_pair_s};
}

}  // namespace

void NodeTable::Add(NodeId id, const handoff::Hello& hello) {
  Node& node = nodes_[id];
  node.hello = hello;
  node.load.free_blocks = hello.capacity.num_blocks;
}

void NodeTable::Remove(NodeId id) {
  auto gone = nodes_.extract(id);
  if (gone.empty() || gone.mapped().hello.role != Role::kDecode) return;
  for (auto& [other, node] : nodes_) std::erase(node.usable_sinks, gone.mapped().hello.name);
}

NodeTable::Node* NodeTable::Find(NodeId id) {
  auto it = nodes_.find(id);
  return it == nodes_.end() ? nullptr : &it->second;
}

std::optional<NodeId> NodeTable::FindByName(std::string_view name) const {
  for (const auto& [id, node] : nodes_) {
    if (node.hello.name == name) return id;
  }
  return std::nullopt;
}

std::optional<NodeId> NodeTable::FindSink(std::string_view name) const {
  for (const auto& [id, node] : nodes_) {
    if (node.hello.role == Role::kDecode && node.hello.name == name && !node.stuck) return id;
  }
  return std::nullopt;
}

void NodeTable::OnHeartbeat(Node& node, const handoff::Heartbeat& heartbeat) {
  for (const Hash128& hash : heartbeat.cached_added) {
    if (node.cached.size() < kCachedMax) node.cached.insert(hash);
  }
  for (const Hash128& hash : heartbeat.cached_removed) node.cached.erase(hash);
  node.usable_sinks = heartbeat.usable_sinks;
  node.load = heartbeat;
  node.load.cached_added.clear();
  node.load.cached_removed.clear();
  node.draining = node.draining || heartbeat.draining;
  node.resting = false;
}

bool NodeTable::PairWorks(const Node& prefill, const Node& decode) const {
  return prefill.hello.role == Role::kPrefill && decode.hello.role == Role::kDecode &&
         !prefill.draining && !decode.draining && !prefill.stuck && !decode.stuck &&
         prefill.hello.model_instance == decode.hello.model_instance &&
         std::find(prefill.usable_sinks.begin(), prefill.usable_sinks.end(), decode.hello.name) !=
             prefill.usable_sinks.end();
}

std::int32_t NodeTable::UsablePairsOf(const Node& node) const {
  std::int32_t count = 0;
  for (const auto& [id, other] : nodes_) {
    count += PairWorks(node, other) || PairWorks(other, node) ? 1 : 0;
  }
  return count;
}

std::int32_t NodeTable::UsablePairs() const {
  std::int32_t count = 0;
  for (const auto& [id, node] : nodes_) {
    if (node.hello.role == Role::kPrefill) count += UsablePairsOf(node);
  }
  return count;
}

bool NodeTable::ServesPrompts(const Node& node, const Hash128& model_instance) const {
  return node.hello.role == Role::kPrefill && node.hello.model_instance == model_instance &&
         UsablePairsOf(node) > 0;
}

bool NodeTable::TakesPrompts(const Node& node, const Hash128& model_instance, Trial trial) const {
  if (node.resting || !ServesPrompts(node, model_instance)) return false;
  if (trial == Trial::kNo) return true;
  return !node.on_trial && std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
    return !entry.second.on_trial && PairWorks(node, entry.second);
  });
}

Duration NodeTable::FirstTokenAfter(Time now, const Hash128& model_instance,
                                    std::size_t ahead) const {
  constexpr double kMost = 24 * 3600;
  double soonest = kMost;
  double per_second = 0;  // of all together
  for (const auto& [id, node] : nodes_) {
    if (!ServesPrompts(node, model_instance)) continue;
    const auto most = node.starts.PerSecondMost(now);
    if (!most) return Duration(0);
    // The first of them may get its token right now.
    soonest = std::min(soonest, static_cast<double>(node.starts.waiting() - 1) / *most);
    per_second += *most;
  }
  if (per_second == 0) return Duration(0);
  soonest = std::min(soonest + static_cast<double>(ahead) / per_second, kMost);
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(soonest));
}

TokenCount NodeTable::Held(const Node& node, std::span<const Hash128> hashes) {
  const std::int32_t block_size = node.hello.layout.block_size;
  if (block_size % kv::kGranule != 0) return TokenCount(0);
  const std::size_t granules = static_cast<std::size_t>(block_size / kv::kGranule);
  std::int32_t held = 0;
  for (std::size_t i = granules; i <= hashes.size() && node.cached.contains(hashes[i - 1]);
       i += granules) {
    held += block_size;
  }
  return TokenCount(held);
}

NodeTable::Candidate NodeTable::ChoosePrefillNode(TokenCount tokens) {
  std::vector<scheduler::PrefillLoad> loads;
  for (const Candidate& candidate : candidates_) {
    const Node& node = nodes_.at(candidate.id);
    loads.push_back({std::max(node.queued_tokens, node.load.queued_tokens), candidate.cached,
                     FitOf(node.load), node.last_chosen});
  }
  const Candidate chosen = candidates_[scheduler::ChoosePrefill(tokens, loads)];
  nodes_.at(chosen.id).last_chosen = ++choices_;
  return chosen;
}

NodeTable::Pair NodeTable::RankSinks(const Candidate& chosen, TokenCount tokens, Trial trial,
                                     std::span<const Hash128> hashes) {
  const Node& prefill = nodes_.at(chosen.id);
  std::vector<NodeId> ids;
  std::vector<scheduler::DecodeLoad> loads;
  const std::int32_t block_size = std::max(prefill.hello.layout.block_size, 1);
  for (const auto& [id, node] : nodes_) {
    if (!PairWorks(prefill, node) || (trial == Trial::kYes && node.on_trial)) continue;
    ids.push_back(id);
    const auto sequences = std::max(node.requests, static_cast<std::int32_t>(node.load.running));
    loads.push_back({node.load.free_blocks, sequences,
                     kv::BlockCount(Held(node, hashes).value() / block_size), FitOf(node.load),
                     node.last_chosen});
  }
  const kv::BlockCount need = prefill.hello.layout.BlocksFor(tokens + handoff::kHeadroom);
  Pair pair;
  pair.prefill = chosen.id;
  pair.uncached = TokenCount(std::max(tokens.value() - chosen.cached.value(), 1));
  for (std::size_t i : scheduler::RankDecode(need, loads)) {
    if (pair.ranked_sinks.empty()) pair.first_sink = ids[i];
    pair.ranked_sinks.push_back(nodes_.at(ids[i]).hello.name);
  }
  nodes_.at(pair.first_sink).last_chosen = ++choices_;
  if (trial == Trial::kYes) pair.ranked_sinks.resize(1);
  return pair;
}

handoff::Peers NodeTable::MakePeers() const {
  handoff::Peers peers;
  for (const auto& [id, node] : nodes_) {
    if (node.hello.role != Role::kDecode) continue;
    peers.sinks.push_back({node.hello.name, node.hello.rpc_address, node.hello.incarnation});
  }
  return peers;
}

}  // namespace tandem::router
