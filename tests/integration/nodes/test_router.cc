#include "tests/integration/nodes/test_router.h"

#include <algorithm>
#include <future>
#include <utility>

#include "common/kv/block_hash.h"
#include "common/worker/hello.h"

namespace tandem::testing {
namespace {

using handoff::NodeId;
using handoff::Role;

// What is zero at a node that has nothing left to do.
bool IsIdle(const handoff::Heartbeat& heartbeat) {
  static const std::set<std::string> kIdle = {
      "used_blocks",      "tasks",    "waiting_room",        "placements",
      "leases",           "reserved", "sequences",           "quarantined_reservations",
      "verifying",        "stalled",  "draining_placements", "outstanding_bytes",
      "pending_transfers"};
  if (heartbeat.queued != 0 || heartbeat.running != 0 ||
      heartbeat.quarantined_blocks != kv::BlockCount(0)) {
    return false;
  }
  return std::all_of(heartbeat.metrics.begin(), heartbeat.metrics.end(),
                     [&](const handoff::NodeMetric& metric) {
                       return metric.value == 0 || !kIdle.contains(metric.name);
                     });
}

}  // namespace

TestRouter::TestRouter(const rpc::Options& options) : incarnation_(worker::MakeIncarnation()) {
  handoff::Hello own;
  own.role = Role::kRouter;
  own.name = fmt::format("test-router-{:x}", incarnation_.value());
  own.incarnation = incarnation_;
  worker::PeerTable::Events events;
  events.check = [](const handoff::Hello&) { return std::nullopt; };
  events.connected = [this](NodeId node, const handoff::Hello& hello) {
    {
      MutexLock lock(mutex_);
      nodes_[node] = {.hello = hello, .usable = {}, .metrics = {}};
    }
    TellPeers();
  };
  events.lost = [this](NodeId node, Role) {
    MutexLock lock(mutex_);
    nodes_.erase(node);
  };
  events.message = [this](NodeId from, handoff::Message message) {
    OnMessage(from, std::move(message));
  };
  events.heartbeat = [](NodeId) { return handoff::Heartbeat{}; };
  peers_ = std::make_unique<worker::PeerTable>(io_, strand_, options, own, std::move(events));
}

TestRouter::~TestRouter() {
  Disconnect();
  io_.Stop();
}

void TestRouter::Disconnect() {
  std::promise<void> done;
  strand_.Post([&] { peers_->CloseAll([&] { done.set_value(); }); });
  done.get_future().wait();
}

void TestRouter::Connect(const std::vector<net::HostPort>& prefill,
                         const std::vector<net::HostPort>& decode) {
  std::vector<handoff::PeerInfo> dialed;
  for (const auto* list : {&prefill, &decode}) {
    for (const net::HostPort& address : *list) {
      dialed.push_back({.name = address.ToString(), .rpc_address = address.ToString()});
    }
  }
  struct Wanted {
    TestRouter* router;
    std::size_t prefill;
    std::size_t decode;
  } wanted{this, prefill.size(), decode.size()};
  strand_.Post([this, dialed] { peers_->SetDialed(dialed); });
  MutexLock lock(mutex_);
  mutex_.Await([w = &wanted] {
    std::size_t pairs = 0;
    for (const auto& [id, node] : w->router->nodes_) pairs += node.usable.size();
    return pairs == w->prefill * w->decode;
  });
}

void TestRouter::TellPeers() {
  handoff::Peers peers;
  std::vector<NodeId> sources;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, node] : nodes_) {
      if (node.hello.role == Role::kPrefill) {
        sources.push_back(id);
      } else {
        peers.sinks.push_back({.name = node.hello.name,
                               .rpc_address = node.hello.rpc_address,
                               .incarnation = node.hello.incarnation});
      }
    }
  }
  for (const NodeId source : sources) peers_->Send(source, peers);
}

std::set<std::string> TestRouter::NumericsClasses() {
  MutexLock lock(mutex_);
  std::set<std::string> classes;
  for (const auto& [id, node] : nodes_) classes.insert(node.hello.numerics);
  return classes;
}

std::uint64_t TestRouter::Send(TokenIds prompt, const sequence::SamplingParams& params) {
  handoff::Prefill message;
  NodeId to{0};
  {
    MutexLock lock(mutex_);
    message.request = {.router = incarnation_, .number = next_++};
    std::vector<NodeId> sources;
    std::vector<std::string> sinks;
    for (const auto& [id, node] : nodes_) {
      if (node.hello.role == Role::kPrefill) {
        sources.push_back(id);
      } else {
        sinks.push_back(node.hello.name);
      }
    }
    const std::size_t turn = message.request.number;
    to = sources[turn % sources.size()];
    std::rotate(sinks.begin(), sinks.begin() + static_cast<std::ptrdiff_t>(turn / 2 % sinks.size()),
                sinks.end());
    const handoff::Hello& hello = nodes_[to].hello;
    message.model_instance = hello.model_instance;
    const Hash128 root = kv::MakeRoot({.model_instance = hello.model_instance,
                                       .numerics = hello.numerics,
                                       .layout = hello.layout});
    message.hashes = std::make_shared<const std::vector<Hash128>>(kv::HashChain(root, prompt));
    message.ranked_sinks = std::move(sinks);
    requests_[message.request.number].prefill = to;
    requests_[message.request.number].outcome.sent = SteadyNow();
  }
  message.attempt = handoff::Attempt(1);
  message.prompt_tokens = TokenCount(static_cast<std::int32_t>(prompt.size()));
  message.tokens = std::make_shared<const TokenIds>(std::move(prompt));
  message.params = params;
  message.budget = std::chrono::minutes(10);
  const std::uint64_t number = message.request.number;
  strand_.Post([this, to, message = std::move(message)] { peers_->Send(to, message); });
  return number;
}

void TestRouter::HoldPlacements() {
  MutexLock lock(mutex_);
  hold_placements_ = true;
}

void TestRouter::AwaitAboveZero(const std::string& node, const std::string& metric) {
  struct Wanted {
    TestRouter* router;
    const std::string& node;
    const std::string& metric;
  } wanted{this, node, metric};
  MutexLock lock(mutex_);
  mutex_.Await([w = &wanted] {
    for (auto& [id, candidate] : w->router->nodes_) {
      if (candidate.hello.name == w->node && candidate.metrics[w->metric] > 0) return true;
    }
    return false;
  });
}

handoff::PhaseTimes TestRouter::AwaitTimes(std::uint64_t request) {
  MutexLock lock(mutex_);
  Request* target = &requests_[request];
  mutex_.Await([r = target] { return r->outcome.times.has_value(); });
  return *target->outcome.times;
}

void TestRouter::CancelAt(std::uint64_t request, Phase phase) {
  strand_.Post([this, request, phase] {
    MutexLock lock(mutex_);
    Request& target = requests_[request];
    target.cancel_at = phase;
    if (target.outcome.phase >= phase) Cancel(target, request);
  });
}

void TestRouter::Cancel(Request& request, std::uint64_t number) {
  if (std::exchange(request.cancelled, true)) return;
  const handoff::Cancel cancel{.key = {.request = {.router = incarnation_, .number = number},
                                       .attempt = handoff::Attempt(1),
                                       .placement = handoff::kAllPlacements}};
  for (const auto& [id, node] : nodes_) {
    if (node.hello.role == Role::kPrefill && id != request.prefill) continue;
    request.cancelling.insert(id);
    peers_->Send(id, cancel);
  }
}

TestRouter::Outcome TestRouter::Await(std::uint64_t request, Phase phase) {
  MutexLock lock(mutex_);
  struct Wanted {
    Request* request;
    Phase phase;
  } wanted{&requests_[request], phase};
  mutex_.Await([w = &wanted] { return w->request->outcome.phase >= w->phase; });
  return wanted.request->outcome;
}

std::map<std::string, std::map<std::string, std::int64_t>> TestRouter::AwaitIdle() {
  MutexLock lock(mutex_);
  for (auto& [id, node] : nodes_) node.idle_heartbeats = 0;
  mutex_.Await([router = this] {
    return std::all_of(router->nodes_.begin(), router->nodes_.end(),
                       [](const auto& entry) { return entry.second.idle_heartbeats >= 2; });
  });
  std::map<std::string, std::map<std::string, std::int64_t>> out;
  for (const auto& [id, node] : nodes_) out[node.hello.name] = node.metrics;
  return out;
}

// --- what nodes say, on the strand

TestRouter::Request& TestRouter::Of(const handoff::RequestId& id) { return requests_[id.number]; }

void TestRouter::OnMessage(NodeId from, handoff::Message message) {
  MutexLock lock(mutex_);
  std::visit([&](const auto& m) { On(from, m); }, message);
}

void TestRouter::Reach(Request& request, std::uint64_t number, Phase phase) {
  request.outcome.phase = std::max(request.outcome.phase, phase);
  if (request.cancel_at && request.outcome.phase >= *request.cancel_at &&
      request.outcome.phase != Phase::kEnded) {
    Cancel(request, number);
  }
}

void TestRouter::Take(Request& request, Position position, TokenId token) {
  TokenIds& tokens = request.outcome.tokens;
  const auto index = static_cast<std::size_t>(position.value());
  if (tokens.size() <= index) tokens.resize(index + 1, TokenId(-1));
  if (tokens[index] != TokenId(-1) && tokens[index] != token) request.outcome.repeats_differ = true;
  tokens[index] = token;
}

void TestRouter::On(NodeId from, const handoff::Heartbeat& m) {
  Node& node = nodes_[from];
  node.usable = {m.usable_sinks.begin(), m.usable_sinks.end()};
  node.metrics.clear();
  for (const handoff::NodeMetric& metric : m.metrics) node.metrics[metric.name] = metric.value;
  node.idle_heartbeats = IsIdle(m) ? node.idle_heartbeats + 1 : 0;
}

void TestRouter::On(NodeId, const handoff::Accepted& m) {
  Reach(Of(m.request), m.request.number, Phase::kAccepted);
}

void TestRouter::On(NodeId, const handoff::Refused& m) {
  Of(m.request).outcome.failure = m.reason;
  Reach(Of(m.request), m.request.number, Phase::kEnded);
}

void TestRouter::On(NodeId from, const handoff::Placed& m) {
  Request& request = Of(m.key.request);
  request.outcome.sink = m.sink;
  Reach(request, m.key.request.number, Phase::kPlaced);
  if (!request.cancelled && !hold_placements_)
    peers_->Send(from, handoff::PlacementNoted{.key = m.key});
}

void TestRouter::On(NodeId, const handoff::FirstToken& m) {
  Request& request = Of(m.request);
  Take(request, m.position, m.token);
  request.outcome.first_times = m.times;
  request.outcome.first_token_at = SteadyNow();
  if (m.finish != sequence::FinishReason::kNone) request.outcome.finish = m.finish;
  Reach(request, m.request.number,
        m.finish != sequence::FinishReason::kNone ? Phase::kEnded : Phase::kFirstToken);
}

void TestRouter::On(NodeId from, const handoff::Tokens& m) {
  Request& request = Of(m.key.request);
  for (std::size_t i = 0; i < m.tokens.size(); ++i) {
    Take(request, Position(m.first.value() + static_cast<std::int32_t>(i)), m.tokens[i]);
  }
  if (m.finish != sequence::FinishReason::kNone) {
    request.outcome.finish = m.finish;
    Reach(request, m.key.request.number, Phase::kEnded);
    return;
  }
  peers_->Send(
      from, handoff::Credit{.key = m.key, .tokens = static_cast<std::uint32_t>(m.tokens.size())});
  Reach(request, m.key.request.number, Phase::kTokens);
}

void TestRouter::On(NodeId, const handoff::TransferReport& m) {
  Outcome& outcome = Of(m.key.request).outcome;
  outcome.times = m.times;
  outcome.joined_at = SteadyNow();
}

void TestRouter::On(NodeId, const handoff::Failed& m) {
  Of(m.key.request).outcome.failure = m.reason;
  Reach(Of(m.key.request), m.key.request.number, Phase::kEnded);
}

void TestRouter::On(NodeId from, const handoff::Cancelled& m) {
  Request& request = Of(m.key.request);
  request.cancelling.erase(from);
  if (request.cancelled && request.cancelling.empty()) {
    Reach(request, m.key.request.number, Phase::kEnded);
  }
}

}  // namespace tandem::testing
