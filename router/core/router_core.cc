#include "router/core/router_core.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/kv/block_hash.h"
#include "router/core/router_impl.h"

namespace tandem::router {

using handoff::Message;
using handoff::NodeId;
using handoff::RequestId;
using handoff::RequestMachine;
using Kind = RequestMachine::Kind;

Status RouterConfig::Validate() const {
  if (incarnation == handoff::Incarnation()) return InvalidArgument("incarnation is 0");
  if (requests_max < 1)
    return InvalidArgument("requests_max is {}, must be positive", requests_max);
  if (queued_max < 1) return InvalidArgument("queued_max is {}, must be positive", queued_max);
  if (no_pair_wait < Duration::zero()) return InvalidArgument("no_pair_wait is negative");
  return OkStatus();
}

// --- requests

void RouterCore::Impl::FlushSends(Actions& out) {
  for (Send& send : sends_) {
    if (nodes_.Find(send.to) != nullptr) out.emplace_back(std::move(send));
  }
  sends_.clear();
}

void RouterCore::Impl::Apply(Time now, Request& request, const Machine::Outcome& outcome,
                             const Cause& cause, Actions& out) {
  FlushSends(out);
  counters_.repeats += outcome.repeats;
  counters_.gaps += outcome.gap ? 1 : 0;
  Machine& machine = request.machine;
  if (outcome.repeats_different > 0) {
    counters_.repeats_different += outcome.repeats_different;
    out.emplace_back(
        Note(StreamDiffers{machine.id(), std::string(cause.node), outcome.repeats_different}));
  }
  if (outcome.kind == Kind::kStale) return Stale(cause, machine.id(), out);
  if (machine.delivered() > outcome.first) Deliver(now, request, outcome.first, out);
  if (outcome.kind == Kind::kRequeued) {
    Requeue(now, request, outcome.counted, cause, out);
  } else if (outcome.kind == Kind::kEnded) {
    ShowFailOver(now, request, false, out);
    Finish(now, request, out);
  }
}

void RouterCore::Impl::Requeue(Time now, Request& request, bool counted, const Cause& cause,
                               Actions& out) {
  const Machine& machine = request.machine;
  if (!cause.never_ran) {
    ShowFailOver(now, request, false, out);
    request.left = Left{std::string(cause.reason), std::string(cause.node), machine.attempt(),
                        request.bill.delivered};
    request.begun = true;
  }
  Uncount(now, request);
  RetryIsUnderWay(request, false);
  Duration rest{0};
  if (machine.suspected()) {
    rest = handoff::kVerdictWait;
  } else if (counted) {
    rest = BackOff(machine.id(), machine.attempt(), machine.fruitless());
  }
  if (request.begun) {
    waiting_.AddRetry(machine.id().number, now, now + rest);
  } else {
    waiting_.AddNew(machine.id().number);
  }
  dispatch_wanted_ = true;
}

void RouterCore::Impl::Finish(Time now, Request& request, Actions& out) {
  completions_.Observe(now);
  Uncount(now, request);
  RetryIsUnderWay(request, false);
  const Machine& machine = request.machine;
  switch (machine.state()) {
    case Machine::State::kDone:
      ++counters_.finished;
      break;
    case Machine::State::kCancelled:
      ++counters_.cancelled;
      break;
    default:
      ++counters_.failed;
      break;
  }
  const std::uint64_t number = machine.id().number;
  out.emplace_back(
      Finished{machine.id(), machine.status(), machine.finish(), std::move(request.bill)});
  waiting_.Remove(number);
  deadlines_.Remove(number);
  requests_.erase(number);
}

void RouterCore::Impl::ShowFailOver(Time now, Request& request, bool resumed, Actions& out) {
  if (!request.left || request.machine.attempt() == request.left->attempt) return;
  const Bill& bill = request.bill;
  const Time since = bill.last_token == Time{} ? bill.arrived : bill.last_token;
  out.emplace_back(Note(FailedOver{.request = request.machine.id(),
                                   .attempt = request.machine.attempt(),
                                   .reason = std::move(request.left->reason),
                                   .from = std::move(request.left->node),
                                   .to_prefill = bill.prefill_node,
                                   .to_decode = bill.decode_node,
                                   .delivered = request.left->delivered,
                                   .pause = now - since,
                                   .resumed = resumed}));
  request.left.reset();
}

void RouterCore::Impl::RetryIsUnderWay(Request& request, bool under_way) {
  if (request.retrying == under_way) return;
  request.retrying = under_way;
  retries_under_way_ += under_way ? 1 : -1;
  dispatch_wanted_ = dispatch_wanted_ || !under_way;
}

void RouterCore::Impl::Deliver(Time now, Request& request, Position first, Actions& out) {
  RetryIsUnderWay(request, false);
  ShowFailOver(now, request, true, out);
  const auto tokens = request.machine.TokensFrom(first);
  const auto logprobs = request.machine.LogprobsFrom(first);
  out.emplace_back(router::Deliver{request.machine.id(),
                                   first,
                                   {tokens.begin(), tokens.end()},
                                   {logprobs.begin(), logprobs.end()}});
  Bill& bill = request.bill;
  if (first == Position(0)) {
    bill.first_token = now;
  } else {
    bill.pause_max = std::max(bill.pause_max, now - bill.last_token);
  }
  bill.last_token = now;
  bill.delivered += TokenCount(static_cast<std::int32_t>(tokens.size()));
  if (!request.machine.must_be_alone()) EndTrial(request);
  counters_.positions += static_cast<std::int64_t>(tokens.size());
}

void RouterCore::Impl::ClientConsumed(RequestId id, std::int32_t positions, Actions& out) {
  Request* request = Find(id);
  if (request == nullptr || positions <= 0) return;
  request->consumed += positions;
  GrantCredit(*request, out);
}

void RouterCore::Impl::GrantCredit(Request& request, Actions& out) {
  const Machine& machine = request.machine;
  if (machine.state() != Machine::State::kDecoding || request.voice != machine.current()) return;
  const std::int64_t more =
      request.consumed + std::int64_t{handoff::kCreditWindow} - request.granted;
  if (more < std::int64_t{handoff::kCreditWindow} / 2) return;  // not a message per token
  request.granted += more;
  out.emplace_back(Send{machine.decode_node(),
                        handoff::Credit{request.voice, static_cast<std::uint32_t>(more)}});
}

void RouterCore::Impl::EndTrial(Request& request) {
  if (!std::exchange(request.on_trial, false)) return;
  for (NodeId id : {request.counted_prefill, request.counted_decode}) {
    if (NodeTable::Node* node = nodes_.Find(id)) node->on_trial = false;
  }
  dispatch_wanted_ = true;
}

void RouterCore::Impl::Uncount(Time now, Request& request) {
  EndTrial(request);
  if (NodeTable::Node* node = nodes_.Find(request.counted_prefill)) {
    --node->requests;
    node->queued_tokens -= request.counted_tokens;
    node->starts.Left(request.machine.id().number, now);
  }
  if (NodeTable::Node* node = nodes_.Find(request.counted_decode)) --node->requests;
  request.counted_prefill = request.counted_decode = NodeId(0);
  request.counted_tokens = TokenCount(0);
}

Status RouterCore::Impl::Submit(Time now, RequestSpec spec, Actions& out) {
  if (stopping_) return Cancelled("the router is stopping");
  if (spec.id.router != config_.incarnation || spec.id.number <= last_number_) {
    return InvalidArgument("request number {} does not follow {}", spec.id.number, last_number_);
  }
  if (spec.tokens == nullptr || spec.tokens->empty()) {
    return InvalidArgument("the prompt has no tokens");
  }
  TANDEM_RETURN_IF_ERROR(spec.params.Validate());
  if (Status admitted = Admission(); !admitted.ok()) {
    ++counters_.refused;
    return admitted;
  }
  if (Status in_time = CheckDeadline(now, spec); !in_time.ok()) {
    ++counters_.refused;
    ++counters_.refused_late;
    return in_time;
  }
  last_number_ = spec.id.number;
  ++counters_.submitted;
  Request& request = requests_.try_emplace(last_number_, spec).first->second;
  request.model_instance = spec.model_instance;
  request.hashes = std::move(spec.hashes);
  request.deadline = spec.deadline;
  request.bill.arrived = now;
  if (spec.deadline.at() != kNever) deadlines_.Set(last_number_, spec.deadline.at());
  waiting_.AddNew(last_number_);
  Dispatch(now, out);
  return OkStatus();
}

Status RouterCore::Impl::Admission() const {
  if (stopping_) return Cancelled("the router is stopping");
  if (requests_.size() >= static_cast<std::size_t>(config_.requests_max)) {
    return ResourceExhausted("{} requests are unfinished, the limit is {}", requests_.size(),
                             config_.requests_max);
  }
  if (waiting_.size() >= static_cast<std::size_t>(config_.queued_max)) {
    return ResourceExhausted("{} requests wait for a node, the limit is {}", waiting_.size(),
                             config_.queued_max);
  }
  return OkStatus();
}

Status RouterCore::Impl::CheckDeadline(Time now, const RequestSpec& spec) const {
  if (spec.deadline.at() == kNever) return OkStatus();
  const Duration soonest = nodes_.FirstTokenAfter(now, spec.model_instance, waiting_.num_ready());
  const Duration left = spec.deadline.Remaining(now);
  if (soonest == Duration(0) || soonest <= left) return OkStatus();
  return ResourceExhausted(
      "{} requests without a token are ahead of this one, which would get its first one after "
      "{:.1f} s at the earliest; its deadline is in {:.1f} s",
      CountWithoutToken(), ToSeconds(soonest), ToSeconds(left));
}

std::int64_t RouterCore::Impl::CountWithoutToken() const {
  return std::count_if(requests_.begin(), requests_.end(),
                       [](const auto& entry) { return entry.second.bill.first_token == Time{}; });
}

Duration RouterCore::Impl::RetryAfter(Time now) const {
  constexpr double kLeast = 1;
  constexpr double kMost = 60;
  double seconds = 5;  // nothing is known
  if (const double rate = completions_.PerSecond(now); rate > 0) {
    seconds = static_cast<double>(CountWithoutToken() + 1) / rate;
  } else {
    double work = 0;  // of the prompts that wait there, by the nodes' own fits
    std::int32_t workers = 0;
    for (const auto& [id, node] : nodes_.nodes()) {
      if (node.hello.role != handoff::Role::kPrefill || node.load.fit.per_token_s <= 0) continue;
      work += node.load.fit.per_token_s * node.load.queued_tokens.value();
      ++workers;
    }
    if (workers > 0) seconds = work / workers;
  }
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::clamp(std::ceil(seconds), kLeast, kMost)));
}

void RouterCore::Impl::Dispatch(Time now, Actions& out) {
  dispatch_wanted_ = false;
  while (!stopping_) {
    const bool retry_may_start = retries_under_way_ < RetriesAtOnce(requests_.size());
    if (const auto aside = waiting_.FirstAside(); aside && retry_may_start) {
      if (StartAttempt(now, requests_.find(*aside)->second, out)) {
        waiting_.Remove(*aside);
        continue;
      }
    }
    const auto number = waiting_.Next(retry_may_start);
    if (!number) return;
    Request& request = requests_.find(*number)->second;
    if (request.machine.suspected()) {
      Apply(now, request, request.machine.GiveUpAsPoison(sends_), {}, out);
      continue;
    }
    if (StartAttempt(now, request, out)) {
      waiting_.Remove(*number);
    } else if (request.machine.must_be_alone()) {
      waiting_.SetAside(*number);  // nobody else waits for that
    } else {
      return;
    }
  }
}

void RouterCore::Impl::DispatchIfWanted(Time now, Actions& out) {
  if (dispatch_wanted_) Dispatch(now, out);
}

handoff::HashList RouterCore::Impl::HashesOf(Request& request, const std::string& numerics) {
  for (ClassHashes& entry : request.hashes) {
    if (entry.numerics != numerics) continue;
    const TokenIds& tokens = request.machine.tokens();
    const std::size_t have = entry.hashes ? entry.hashes->size() : 0;
    if (have < tokens.size() / kv::kGranule) {
      auto longer = std::make_shared<std::vector<Hash128>>();
      if (entry.hashes) *longer = *entry.hashes;
      kv::ExtendChain(entry.root, tokens, *longer);
      entry.hashes = std::move(longer);
    }
    return entry.hashes;
  }
  return nullptr;
}

bool RouterCore::Impl::StartAttempt(Time now, Request& request, Actions& out) {
  const auto tokens = TokenCount(static_cast<std::int32_t>(request.machine.tokens().size()));
  const bool alone = request.machine.must_be_alone();
  auto pair = nodes_.Choose(
      request.model_instance, tokens, alone ? NodeTable::Trial::kYes : NodeTable::Trial::kNo,
      [&](const std::string& numerics) { return HashesOf(request, numerics); });
  if (!pair.has_value()) return false;
  handoff::Prefill message = request.machine.Start(pair->prefill);
  NodeTable::Node& prefill = *nodes_.Find(pair->prefill);
  message.model_instance = request.model_instance;
  message.hashes = HashesOf(request, prefill.hello.numerics);
  if (message.hashes == nullptr) message.hashes = std::make_shared<std::vector<Hash128>>();
  message.ranked_sinks = std::move(pair->ranked_sinks);
  if (request.deadline.at() != kNever) {
    message.budget = std::max(request.deadline.Remaining(now), Duration(1));
  }
  ++counters_.attempts;
  ++request.bill.attempts;
  RetryIsUnderWay(request, request.begun);
  request.bill.decode_node.clear();
  request.bill.prefill_node = prefill.hello.name;
  if (request.bill.dispatched == Time{}) request.bill.dispatched = now;
  request.counted_prefill = pair->prefill;
  request.counted_tokens = pair->uncached;
  request.counted_decode = pair->first_sink;
  ++prefill.requests;
  prefill.queued_tokens += pair->uncached;
  prefill.starts.Sent(request.machine.id().number, now);
  NodeTable::Node& decode = *nodes_.Find(pair->first_sink);
  ++decode.requests;
  if (alone) request.on_trial = prefill.on_trial = decode.on_trial = true;
  out.emplace_back(Send{pair->prefill, std::move(message)});
  return true;
}

void RouterCore::Impl::End(Time now, RequestId id, const Status& status, Actions& out) {
  if (Request* request = Find(id)) {
    Apply(now, *request, request->machine.End(status, sends_), {}, out);
    DispatchIfWanted(now, out);
  }
}

void RouterCore::Impl::Stop(Time now, const Status& reason, Actions& out) {
  stopping_ = true;
  while (!requests_.empty()) {
    End(now, requests_.begin()->second.machine.id(), reason, out);
  }
}

void RouterCore::Impl::OnTime(Time now, Actions& out) {
  while (auto number = deadlines_.Pop(now)) {
    End(now, {config_.incarnation, *number}, DeadlineExceeded("the request's deadline passed"),
        out);
  }
  while (GiveUpAt() <= now) {
    End(now, {config_.incarnation, *waiting_.FirstNew()},
        Unavailable("no pair of prefill and decode node was usable for {} s",
                    ToSeconds(config_.no_pair_wait)),
        out);
  }
  if (waiting_.NextDeadline() <= now) {
    waiting_.OnTime(now);
    Dispatch(now, out);
  }
}

Time RouterCore::Impl::NextDeadline() const {
  return std::min({deadlines_.next(), waiting_.NextDeadline(), GiveUpAt()});
}

Time RouterCore::Impl::GiveUpAt() const {
  const auto number = waiting_.FirstNew();
  if (usable_pairs_ > 0 || !number || config_.no_pair_wait == Duration::max()) return kNever;
  return std::max(requests_.find(*number)->second.bill.arrived, no_pair_since_) +
         config_.no_pair_wait;
}

RouterStats RouterCore::Impl::stats() const {
  RouterStats stats = counters_;
  stats.nodes = static_cast<std::int32_t>(nodes_.nodes().size());
  stats.usable_pairs = usable_pairs_;
  stats.requests = static_cast<std::int32_t>(requests_.size());
  stats.queued = static_cast<std::int32_t>(waiting_.size());
  stats.retries_queued = static_cast<std::int32_t>(waiting_.num_retries());
  stats.retries_under_way = retries_under_way_;
  return stats;
}

// --- the public face

RouterCore::RouterCore(const RouterConfig& config) : impl_(std::make_unique<Impl>(config)) {
  TANDEM_CHECK(config.Validate().ok());
}
RouterCore::~RouterCore() = default;

void RouterCore::NodeConnected(Time now, NodeId node, const handoff::Hello& hello, Actions& out) {
  impl_->NodeConnected(now, node, hello, out);
}
void RouterCore::NodeLost(Time now, NodeId node, handoff::Loss loss, Actions& out) {
  impl_->NodeLost(now, node, loss, out);
}
void RouterCore::OnMessage(Time now, NodeId node, Message message, Actions& out) {
  impl_->OnMessage(now, node, message, out);
}
Status RouterCore::Submit(Time now, RequestSpec spec, Actions& out) {
  return impl_->Submit(now, std::move(spec), out);
}
void RouterCore::ClientGone(Time now, RequestId request, Actions& out) {
  impl_->End(now, request, Cancelled("the client left"), out);
}
void RouterCore::StopMatched(Time now, RequestId request, Position, Actions& out) {
  impl_->End(now, request, OkStatus(), out);
}
void RouterCore::ClientConsumed(Time, RequestId request, std::int32_t positions, Actions& out) {
  impl_->ClientConsumed(request, positions, out);
}
void RouterCore::DrainNode(Time now, NodeId node, Duration budget, Actions& out) {
  impl_->DrainNode(now, node, budget, out);
}
void RouterCore::Stop(Time now, const Status& reason, Actions& out) {
  impl_->Stop(now, reason, out);
}
Status RouterCore::Admission() const { return impl_->Admission(); }
Duration RouterCore::RetryAfter(Time now) const { return impl_->RetryAfter(now); }
void RouterCore::OnTime(Time now, Actions& out) { impl_->OnTime(now, out); }
Time RouterCore::NextDeadline() const { return impl_->NextDeadline(); }
bool RouterCore::ready() const { return impl_->ready(); }
RouterStats RouterCore::stats() const { return impl_->stats(); }
std::vector<NodeView> RouterCore::nodes() const { return impl_->nodes(); }

}  // namespace tandem::router
