#include "deploy/sim/router_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "deploy/sim/trace.h"

namespace tandem::sim {

using handoff::NodeId;
using handoff::PlacementKey;

namespace {
constexpr Duration kRestMin = std::chrono::milliseconds(50);  // 100 ms less the jitter
}  // namespace

void RouterRules::Break(std::string what) {
  if (broken_.empty()) broken_ = std::move(what);
}

void RouterRules::Lost(NodeId node) {
  nodes_.erase(node);
  for (auto& [request, attempt] : attempts_) {
    if (attempt.prefill == node) attempt.prefill = NodeId(0);
    if (attempt.decode == node) attempt.decode = NodeId(0);
  }
}

void RouterRules::Received(Time now, NodeId from, const handoff::Message& message) {
  // The attempt of this number, if it is the last one of its request.
  auto current = [&](handoff::RequestId request, handoff::Attempt number) {
    auto it = attempts_.find(request.number);
    return it == attempts_.end() || it->second.number != number ? nullptr : &it->second;
  };
  if (const auto* m = std::get_if<handoff::Placed>(&message)) {
    to_answer_ = *m;
    placed_by_ = from;
  } else if (const auto* m = std::get_if<handoff::Refused>(&message)) {
    Attempt* attempt = current(m->request, m->attempt);
    if (attempt == nullptr || attempt->prefill != from) return;
    attempt->prefill = NodeId(0);
    OnFailure(now, *attempt, m->reason);
  } else if (const auto* m = std::get_if<handoff::Tokens>(&message)) {
    Attempt* attempt = current(m->key.request, m->key.attempt);
    if (attempt == nullptr || attempt->decode != from) return;
    attempt->heard_decode = attempt->heard_decode || attempt->noted == m->key.placement;
  } else if (const auto* m = std::get_if<handoff::Failed>(&message)) {
    Attempt* attempt = current(m->key.request, m->key.attempt);
    if (attempt == nullptr) return;
    const bool by_prefill = attempt->prefill == from && !attempt->heard_decode;
    const bool by_decode = attempt->decode == from && attempt->noted == m->key.placement;
    if (by_prefill || by_decode) OnFailure(now, *attempt, m->reason);
  }
}

void RouterRules::OnFailure(Time now, Attempt& attempt, handoff::Reason reason) {
  switch (reason) {
    case handoff::Reason::kPreempted:
    case handoff::Reason::kNoSink:
    case handoff::Reason::kFull:
    case handoff::Reason::kDraining:
      return;
    default:
      attempt.rests_until = now + kRestMin;
  }
}

void RouterRules::Sent(Time now, NodeId to, const handoff::Message& message) {
  const bool answers = to_answer_.has_value() && to == placed_by_;
  if (const auto* m = std::get_if<handoff::Cancel>(&message)) {
    OnCancel(to, m->key);
    if (answers && m->key >= to_answer_->key) to_answer_.reset();
  } else if (const auto* m = std::get_if<handoff::PlacementRefused>(&message)) {
    if (answers && m->key == to_answer_->key) to_answer_.reset();
  } else if (const auto* m = std::get_if<handoff::PlacementNoted>(&message)) {
    if (!answers || m->key != to_answer_->key) return Break("PlacementNoted answers no Placed");
    OnNoted(m->key);
    to_answer_.reset();
  } else if (const auto* m = std::get_if<handoff::Prefill>(&message)) {
    OnPrefill(now, to, *m);
  }
}

void RouterRules::OnCancel(NodeId to, const PlacementKey& key) {
  auto it = attempts_.find(key.request.number);
  if (it == attempts_.end()) return;
  Attempt& attempt = it->second;
  if (PlacementKey{key.request, attempt.number, attempt.noted} > key) return;
  if (attempt.decode == to) attempt.decode = NodeId(0);
  const bool whole = key.attempt > attempt.number || key.placement == handoff::kAllPlacements;
  if (whole && attempt.prefill == to) attempt.prefill = NodeId(0);
}

void RouterRules::OnPrefill(Time now, NodeId to, const handoff::Prefill& message) {
  Attempt& attempt = attempts_[message.request.number];
  MustBeGone(attempt, message.request.number, "a new attempt");
  if (now < attempt.rests_until) {
    Break(fmt::format("request {}: attempt {} comes {:.3f} s too early after a failure",
                      message.request.number, message.attempt,
                      ToSeconds(attempt.rests_until - now)));
  }
  attempt = {.number = message.attempt, .prefill = to};
}

void RouterRules::OnNoted(const PlacementKey& key) {
  const std::string& name = to_answer_->sink;
  const auto sink = std::find_if(nodes_.begin(), nodes_.end(),
                                 [&](const auto& entry) { return entry.second == name; });
  if (sink == nodes_.end()) {
    return Break(fmt::format("noted {} on {}, which is not connected", Describe(key), name));
  }
  Attempt& attempt = attempts_[key.request.number];
  if (attempt.decode != NodeId(0)) {
    Break(fmt::format("noted {} without a Cancel to {}, which may hold placement {}", Describe(key),
                      nodes_[attempt.decode], attempt.noted));
  }
  attempt.decode = sink->first;
  attempt.noted = key.placement;
}

void RouterRules::Finished(handoff::RequestId request, bool early) {
  auto it = attempts_.find(request.number);
  if (it == attempts_.end()) return;
  if (early) MustBeGone(it->second, request.number, "its end");
  attempts_.erase(it);
}

void RouterRules::MustBeGone(const Attempt& attempt, std::uint64_t request, const char* before) {
  for (NodeId node : {attempt.prefill, attempt.decode}) {
    if (node == NodeId(0)) continue;
    Break(fmt::format("request {}: no Cancel before {} to {}, which may hold attempt {}", request,
                      before, nodes_[node], attempt.number));
  }
}

std::string RouterRules::Check() {
  if (to_answer_.has_value()) {
    Break(fmt::format("Placed {} was not answered", Describe(to_answer_->key)));
    to_answer_.reset();
  }
  return std::exchange(broken_, {});
}

}  // namespace tandem::sim
