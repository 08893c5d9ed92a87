#include "deploy/sim/router_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/kv/block_hash.h"
#include "deploy/sim/token_model.h"

namespace tandem::sim {

using handoff::NodeId;

namespace {
Hash128 RootOf(const Hash128& model_instance) {
  kv::HashRoot root;
  root.model_instance = model_instance;
  root.numerics = "sim";
  return kv::MakeRoot(root);
}
}  // namespace

RouterProcess::RouterProcess(World& world, NodeId id, const SimOptions& options,
                             const router::RouterConfig& config, const Hash128& model_instance)
    : world_(world),
      id_(id),
      options_(options),
      config_(config),
      model_instance_(model_instance),
      root_(RootOf(model_instance)),
      core_(config) {
  world_.Join(id, [this](NodeId from, handoff::Message message) {
    Do([&](router::Actions& out) {
      core_.OnMessage(world_.loop.now(), from, std::move(message), out);
    });
  });
}

void RouterProcess::Broken(std::uint64_t number, const std::string& what) {
  world_.Violate(fmt::format("request {}: {}", number, what));
}

handoff::Hello RouterProcess::MakeHello() const {
  handoff::Hello hello;
  hello.name = "router";
  hello.incarnation = config_.incarnation;
  return hello;
}

void RouterProcess::Do(const std::function<void(router::Actions&)>& event) {
  router::Actions out;
  event(out);
  for (router::Action& action : out) Act(action);
  const Time next = core_.NextDeadline();
  if (next == kNever || next >= timer_) return;
  timer_ = next;
  world_.loop.At(next, [this, next] {
    if (timer_ != next) return;
    timer_ = kNever;
    Do([&](router::Actions& more) { core_.OnTime(world_.loop.now(), more); });
  });
}

void RouterProcess::ConnectNode(NodeId node, const handoff::Hello& hello) {
  Do([&](auto& out) { core_.NodeConnected(world_.loop.now(), node, hello, out); });
}

void RouterProcess::StartWorkload() {
  for (int i = 0; i < 2; ++i) {
    TokenIds& prefix = prefixes_.emplace_back();
    const std::uint64_t length =
        world_.random.Below(static_cast<std::uint64_t>(options_.prompt_max) / 2);
    while (prefix.size() < length) {
      prefix.push_back(TokenId(static_cast<std::int32_t>(world_.random.Below(kVocabulary))));
    }
  }
  std::vector<Duration> arrivals;
  for (std::int32_t i = 0; i < options_.requests; ++i) {
    arrivals.push_back(world_.Jitter(options_.arrivals));
  }
  std::sort(arrivals.begin(), arrivals.end());
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    world_.loop.After(arrivals[i], [this, number = i + 1] { Submit(number); });
  }
}

router::RequestSpec RouterProcess::Draw(std::uint64_t number) {
  SplitMix64& random = world_.random;
  auto tokens = std::make_shared<TokenIds>();
  if (random.Below(2) == 0) *tokens = prefixes_[random.Below(prefixes_.size())];
  const std::uint64_t tail = 1 + random.Below(static_cast<std::uint64_t>(options_.prompt_max) / 2);
  for (std::uint64_t i = 0; i < tail; ++i) {
    tokens->push_back(TokenId(static_cast<std::int32_t>(random.Below(kVocabulary))));
  }
  router::RequestSpec spec;
  spec.id = {config_.incarnation, number};
  spec.model_instance = model_instance_;
  spec.params.seed = random.Next();
  spec.params.max_tokens =
      TokenCount(random.Below(6) == 0 ? 1
                                      : 1 + static_cast<std::int32_t>(random.Below(
                                                static_cast<std::uint64_t>(options_.output_max))));
  const std::uint64_t stops = random.Below(40);  // ids: at times one is hit early, even at once
  for (std::uint64_t i = 0; i < stops; ++i) {
    spec.params.stop_token_ids.push_back(
        TokenId(static_cast<std::int32_t>(random.Below(kVocabulary))));
  }
  std::sort(spec.params.stop_token_ids.begin(), spec.params.stop_token_ids.end());
  spec.hashes.push_back(
      {"sim", root_, std::make_shared<const std::vector<Hash128>>(kv::HashChain(root_, *tokens))});
  spec.tokens = std::move(tokens);
  return spec;
}

void RouterProcess::Submit(std::uint64_t number) {
  router::RequestSpec spec = Draw(number);
  SplitMix64& random = world_.random;
  Client& client = clients_[number];
  client.expected = ReferenceStream(*spec.tokens, spec.params, options_.num_layers);
  auto percent = [&](std::int32_t p) { return random.Below(100) < static_cast<std::uint64_t>(p); };
  if (percent(options_.stop_string_percent)) {
    client.stop_at = static_cast<std::int32_t>(random.Below(client.expected.size()));
  }
  client.slow = percent(options_.slow_client_percent);
  if (percent(options_.cancel_percent)) {
    world_.loop.After(world_.Jitter(std::chrono::milliseconds(40)), [this, number] {
      auto it = clients_.find(number);
      if (it == clients_.end()) return;
      it->second.gone = true;
      Do([&](auto& out) {
        core_.ClientGone(world_.loop.now(), {config_.incarnation, number}, out);
      });
    });
  }
  ++started_;
  Do([&](auto& out) {
    const Status status = core_.Submit(world_.loop.now(), std::move(spec), out);
    if (!status.ok()) Broken(number, status.ToString());
  });
}

void RouterProcess::Act(router::Action& action) {
  if (auto* a = std::get_if<handoff::Send>(&action)) {
    world_.Send(id_, a->to, std::move(a->message));
  } else if (auto* a = std::get_if<router::Deliver>(&action)) {
    OnDeliver(*a);
  } else if (auto* a = std::get_if<router::Finished>(&action)) {
    OnFinished(*a);
  }
}

void RouterProcess::OnDeliver(const router::Deliver& action) {
  const std::uint64_t number = action.request.number;
  auto it = clients_.find(number);
  if (it == clients_.end()) return Broken(number, "tokens after the end");
  Client& client = it->second;
  if (client.gone) return Broken(number, "tokens for a client that left");
  if (action.first.value() != client.received) {
    return Broken(number,
                  fmt::format("position {} came when {} was next", action.first, client.received));
  }
  for (TokenId token : action.tokens) {
    const auto position = static_cast<std::size_t>(client.received++);
    if (position >= client.expected.size() || client.expected[position] != token) {
      return Broken(number, fmt::format("wrong token at position {}", position));
    }
    if (client.stop_at == static_cast<std::int32_t>(position) && !client.stopped) {
      client.stopped = true;
      world_.loop.After(Duration(1), [this, number, position] {
        Do([&](auto& out) {
          core_.StopMatched(world_.loop.now(), {config_.incarnation, number},
                            Position(static_cast<std::int32_t>(position)), out);
        });
      });
    }
  }
  const Duration pause = client.slow ? std::chrono::milliseconds(5) : std::chrono::microseconds(10);
  const auto count = static_cast<std::int32_t>(action.tokens.size());
  world_.loop.After(pause * count, [this, id = action.request, count] {
    Do([&](auto& out) { core_.ClientConsumed(world_.loop.now(), id, count, out); });
  });
}

void RouterProcess::OnFinished(const router::Finished& action) {
  const std::uint64_t number = action.request.number;
  auto it = clients_.find(number);
  if (it == clients_.end()) return Broken(number, "ended twice");
  const Client client = it->second;
  clients_.erase(it);
  if (action.status.code() == absl::StatusCode::kCancelled && client.gone) {
    ++cancelled_;
    return;
  }
  if (!action.status.ok()) return Broken(number, action.status.ToString());
  ++done_;
  const bool whole = client.received == static_cast<std::int32_t>(client.expected.size());
  if (!whole && !client.stopped) {
    Broken(number,
           fmt::format("ended after {} of {} positions", client.received, client.expected.size()));
  }
  if (action.bill.delivered.value() != client.received) Broken(number, "the bill miscounts tokens");
}

void RouterProcess::CheckBooks() {
  const router::RouterStats s = core_.stats();
  if (s.requests == 0 && s.queued == 0 && core_.NextDeadline() == kNever) return;
  world_.Violate(
      fmt::format("router: left at the end: {} requests, {} queued", s.requests, s.queued));
}

}  // namespace tandem::sim
