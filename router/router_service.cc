#include "router/router_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "common/kv/block_hash.h"
#include "common/log/log.h"

namespace tandem::router {
namespace {

constexpr Duration kPingLimit = std::chrono::milliseconds(500);  // two nodes with one name

}  // namespace

RouterService::RouterService(net::IoThreads& io, const net::Strand& strand,
                             metrics::Registry& registry, Options options)
    : io_(io),
      strand_(strand),
      options_(std::move(options)),
      core_(options_.core),
      notes_(registry),
      timer_(strand),
      stop_timer_(strand) {
  for (const net::HostPort& address : options_.prefill) AddNode(handoff::Role::kPrefill, address);
  for (const net::HostPort& address : options_.decode) AddNode(handoff::Role::kDecode, address);
}

RouterService::~RouterService() = default;

// --- nodes

void RouterService::AddNode(handoff::Role role, const net::HostPort& address) {
  handoff::Hello own;
  own.role = handoff::Role::kRouter;
  own.name = options_.name;
  own.incarnation = options_.core.incarnation;
  nodes_.push_back(std::make_unique<Node>());
  Node& node = *nodes_.back();
  node.role = role;
  NodeLink::Events events;
  events.on_hello = [this, &node](const handoff::Hello& hello) { OnHello(node, hello); };
  events.on_message = [this, &node](handoff::Message message) {
    if (!node.id) return;
    core_.OnMessage(SteadyNow(), *node.id, std::move(message), actions_);
    Run();
  };
  events.on_lost = [this, &node](handoff::Loss loss, const Status&) { OnLost(node, loss); };
  node.link = std::make_unique<NodeLink>(io_, strand_, address, options_.rpc, std::move(own),
                                         std::move(events));
}

void RouterService::Start() {
  for (auto& node : nodes_) node->link->Start();
}

void RouterService::Disconnect() {
  timer_.Cancel();
  stop_timer_.Cancel();
  for (auto& node : nodes_) node->link->Stop();
}

std::optional<handoff::HelloRefused> RouterService::Misfit(const Node& node,
                                                           const handoff::Hello& hello) const {
  if (hello.role != node.role) {
    return handoff::HelloRefused{
        "role",
        fmt::format("{} is configured as a {} node and is a {} node",
                    node.link->address().ToString(), RoleName(node.role), RoleName(hello.role))};
  }
  const handoff::Hello own;
  if (hello.wire_lowest > own.wire_highest || hello.wire_highest < own.wire_lowest) {
    return handoff::HelloRefused{
        "wire",
        fmt::format("speaks wire versions {} to {}, this router {} to {}", hello.wire_lowest,
                    hello.wire_highest, own.wire_lowest, own.wire_highest)};
  }
  if (hello.incarnation.value() == 0 || hello.name.empty()) {
    return handoff::HelloRefused{"name", "a node needs a name and an incarnation"};
  }
  if (model_instance_ && hello.model_instance != *model_instance_) {
    return handoff::HelloRefused{
        "model_instance", fmt::format("is {}, the nodes of this router have {}: start it with "
                                      "the same model file",
                                      hello.model_instance.ToHex(), model_instance_->ToHex())};
  }
  return std::nullopt;
}

void RouterService::OnHello(Node& node, const handoff::Hello& hello) {
  if (auto misfit = Misfit(node, hello)) {
    log::Error("router.node.refused", "address={} field={} reason=\"{}\"",
               node.link->address().ToString(), misfit->field, misfit->reason);
    return node.link->Refuse(misfit->field, misfit->reason);
  }
  auto same_name = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& other) {
    return other.get() != &node && other->id && other->hello.name == hello.name;
  });
  if (same_name == nodes_.end() || (*same_name)->hello.incarnation == hello.incarnation) {
    return Join(node, hello);
  }
  // Another life under a known name: the old one is gone, or two nodes share a name.
  Node& old = **same_name;
  old.link->Ping(kPingLimit, [this, &node, &old, hello](bool answered) {
    if (answered) {
      return node.link->Refuse("name", fmt::format("{} has the name '{}' too",
                                                   old.link->address().ToString(), hello.name));
    }
    old.link->Drop(Unavailable("no answer to a ping"));
    Join(node, hello);
  });
}

void RouterService::Join(Node& node, const handoff::Hello& hello) {
  node.hello = hello;
  node.drained = false;
  node.id = directory_.IdOf(hello.name, hello.incarnation);
  if (!model_instance_) model_instance_ = hello.model_instance;
  node.link->Accept();
  log::Info("router.node.connected", "name={} role={} address={} numerics={}", hello.name,
            RoleName(hello.role), node.link->address().ToString(), hello.numerics);
  for (auto& other : nodes_) {
    if (other.get() != &node && other->id == node.id) other->id.reset();  // replaced
  }
  UpdateContexts();
  core_.NodeConnected(SteadyNow(), *node.id, hello, actions_);
  Run();
}

void RouterService::OnLost(Node& node, handoff::Loss loss) {
  if (!node.id) return;
  const handoff::NodeId id = *std::exchange(node.id, std::nullopt);
  node.drained = loss == handoff::Loss::kClosed;
  UpdateContexts();
  core_.NodeLost(SteadyNow(), id, loss, actions_);
  Run();
}

// A request needs one node of each role: the largest of each counts.
void RouterService::UpdateContexts() {
  std::map<handoff::Role, TokenCount> largest;
  for (const auto& node : nodes_) {
    if (!node->id) continue;
    TokenCount& context = largest[node->role];
    context = std::max(context, node->hello.capacity.max_context);
  }
  for (const auto& [role, tokens] : largest) contexts_[role] = tokens;
}

TokenCount RouterService::context() const {
  TokenCount context = options_.model_context;
  for (const auto& [role, tokens] : contexts_) {
    if (tokens > TokenCount(0)) context = std::min(context, tokens);
  }
  return context;
}

// --- requests

std::vector<ClassHashes> RouterService::HashPrompt(const TokenIds& tokens) const {
  std::vector<ClassHashes> out;
  for (const auto& node : nodes_) {
    if (!node->id) continue;
    const handoff::Hello& hello = node->hello;
    if (std::any_of(out.begin(), out.end(),
                    [&](const ClassHashes& known) { return known.numerics == hello.numerics; })) {
      continue;
    }
    const Hash128 root = kv::MakeRoot({.model_instance = hello.model_instance,
                                       .numerics = hello.numerics,
                                       .layout = hello.layout,
                                       .salt = {}});
    out.push_back(
        {.numerics = hello.numerics,
         .root = root,
         .hashes = std::make_shared<const std::vector<Hash128>>(kv::HashChain(root, tokens))});
  }
  return out;
}

StatusOr<handoff::RequestId> RouterService::Submit(Generation generation,
                                                   std::shared_ptr<GenerationSink> sink) {
  if (stopping_) return Unavailable("the router is stopping");
  if (contexts_.size() < 2) {
    return Unavailable("no prefill and decode node has connected yet to this router");
  }
  RequestSpec spec;
  spec.id = {options_.core.incarnation, ++last_number_};
  spec.model_instance = *model_instance_;
  spec.hashes = HashPrompt(*generation.tokens);
  spec.tokens = std::move(generation.tokens);
  spec.params = std::move(generation.params);
  spec.deadline = generation.deadline;
  const handoff::RequestId id = spec.id;
  TANDEM_RETURN_IF_ERROR(core_.Submit(SteadyNow(), std::move(spec), actions_));
  sinks_.emplace(id, std::move(sink));
  strand_.Post([this] { Run(); });
  return id;
}

void RouterService::ClientGone(handoff::RequestId request) {
  core_.ClientGone(SteadyNow(), request, actions_);
  Run();
}

void RouterService::StopMatched(handoff::RequestId request, Position position) {
  core_.StopMatched(SteadyNow(), request, position, actions_);
  Run();
}

void RouterService::Consumed(handoff::RequestId request, std::int32_t positions) {
  core_.ClientConsumed(SteadyNow(), request, positions, actions_);
  Run();
}

void RouterService::Stop(Duration grace, net::Closure stopped) {
  stopping_ = true;
  stopped_ = std::move(stopped);
  stop_timer_.Set(SteadyNow() + grace, [this] { CancelAll(); });
  Run();
}

void RouterService::CancelAll() {
  core_.Stop(SteadyNow(), Unavailable("the router is stopping"), actions_);
  Run();
}

// --- actions

void RouterService::Run() {
  if (std::exchange(running_, true)) return;  // the loop below takes what was appended
  while (!actions_.empty()) {
    Actions batch = std::exchange(actions_, {});
    for (Action& action : batch) {
      std::visit([this](auto& a) { Do(a); }, action);
    }
  }
  running_ = false;
  ArmTimer();
  if (stopping_ && sinks_.empty() && stopped_) std::exchange(stopped_, net::Closure())();
}

void RouterService::ArmTimer() {
  timer_.Set(core_.NextDeadline(), [this] {
    core_.OnTime(SteadyNow(), actions_);
    Run();
  });
}

void RouterService::Do(Send& action) {
  for (auto& node : nodes_) {
    if (node->id == action.to) return node->link->Send(action.message);
  }
}

void RouterService::Do(Deliver& action) {
  auto it = sinks_.find(action.request);
  if (it == sinks_.end()) return;
  std::shared_ptr<GenerationSink> sink = it->second;  // kept while it is called
  sink->OnTokens(action.first, action.tokens);
}

void RouterService::Do(Finished& action) {
  auto it = sinks_.find(action.request);
  if (it == sinks_.end()) return;
  std::shared_ptr<GenerationSink> sink = std::move(it->second);
  sinks_.erase(it);
  sink->OnFinished(action.status, action.finish, action.bill);
}

void RouterService::Do(Readiness& action) {
  log::Info("router.readiness", "usable_pairs={}", action.usable_pairs);
}

}  // namespace tandem::router
