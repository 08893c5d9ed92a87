#include "deploy/sim/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "common/kv/block_hash.h"
#include "deploy/sim/router_process.h"
#include "deploy/sim/token_model.h"

namespace tandem::sim {
namespace {

constexpr Duration kSubmitAgain = std::chrono::milliseconds(50);  // while no router answers

// While a pair works and nothing goes wrong, a stream that is read goes on within this time: what
// was lost is noticed, dialed again and probed in less. Below a lease: no stream waits for the end
// of one.
constexpr Duration kProgress = std::chrono::seconds(4);

constexpr Duration kDeadlineSlack = std::chrono::milliseconds(100);

// A wait that long is not the work of a few steps.
constexpr Duration kPauseFloor = std::chrono::milliseconds(5);

Hash128 RootOf(const Hash128& model_instance) {
  kv::HashRoot root;
  root.model_instance = model_instance;
  root.numerics = "sim";
  return kv::MakeRoot(root);
}

TokenId AnyToken(SplitMix64& random) {
  return TokenId(static_cast<std::int32_t>(random.Below(kVocabulary)));
}

}  // namespace

Workload::Workload(World& world, const SimOptions& options, const Hash128& model_instance,
                   Surroundings surroundings)
    : world_(world),
      options_(options),
      model_instance_(model_instance),
      root_(RootOf(model_instance)),
      surroundings_(std::move(surroundings)),
      random_(Mix64(options.seed) ^ 0x5eed),
      left_(options.requests) {}

void Workload::Broken(const Client& client, const std::string& what) {
  world_.Violate(fmt::format("request {}: {}", client.number, what));
}

// --- drawing

void Workload::Start() {
  for (int i = 0; i < 2; ++i) {
    TokenIds& prefix = prefixes_.emplace_back();
    const std::uint64_t length = random_.Below(static_cast<std::uint64_t>(options_.prompt_max) / 2);
    while (prefix.size() < length) prefix.push_back(AnyToken(random_));
  }
  for (std::int32_t i = 0; i < options_.requests; ++i) clients_.push_back(Draw(i + 1));
  std::vector<Duration> arrivals;
  for (std::int32_t i = 0; i < options_.requests; ++i) {
    arrivals.push_back(Duration(static_cast<std::int64_t>(
        random_.Below(static_cast<std::uint64_t>(options_.arrivals.count()) + 1))));
  }
  std::sort(arrivals.begin(), arrivals.end());
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    clients_[i].arrives = world_.loop.now() + arrivals[i];
    world_.loop.After(arrivals[i], [this, i] { Submit(clients_[i]); });
  }
}

Workload::Client Workload::Draw(std::int32_t index) {
  Client client;
  auto tokens = std::make_shared<TokenIds>();
  if (random_.Below(2) == 0) *tokens = prefixes_[random_.Below(prefixes_.size())];
  const std::uint64_t tail = 1 + random_.Below(static_cast<std::uint64_t>(options_.prompt_max) / 2);
  for (std::uint64_t i = 0; i < tail; ++i) tokens->push_back(AnyToken(random_));
  router::RequestSpec& spec = client.spec;
  spec.model_instance = model_instance_;
  spec.params.seed = random_.Next();
  for (std::uint64_t mark : {kPoisonSeed, kHopelessSeed}) {
    if (IsMarked(spec.params.seed, mark)) spec.params.seed <<= 1;  // not by chance
  }
  for (const Fault& fault : options_.faults) {
    const bool poison = fault.kind == FaultKind::kPoison;
    if (!poison && fault.kind != FaultKind::kHopeless) continue;
    if (fault.target != fmt::format("request-{}", index)) continue;
    const auto roles = static_cast<std::uint64_t>(fault.count & 3);
    spec.params.seed = (poison ? kPoisonSeed : kHopelessSeed) | roles;
  }
  const bool one_token = random_.Below(6) == 0;
  const auto output = 1 + random_.Below(static_cast<std::uint64_t>(options_.output_max));
  spec.params.max_tokens = TokenCount(one_token ? 1 : static_cast<std::int32_t>(output));
  const std::uint64_t stops = random_.Below(40);  // ids: at times one is hit early, even at once
  for (std::uint64_t i = 0; i < stops; ++i) {
    spec.params.stop_token_ids.push_back(AnyToken(random_));
  }
  std::sort(spec.params.stop_token_ids.begin(), spec.params.stop_token_ids.end());
  spec.hashes.push_back(
      {"sim", root_, std::make_shared<const std::vector<Hash128>>(kv::HashChain(root_, *tokens))});
  client.expected = ReferenceStream(*tokens, spec.params, options_.num_layers);
  spec.tokens = std::move(tokens);
  if (Percent(options_.stop_string_percent)) {
    client.stop_at = static_cast<std::int32_t>(random_.Below(client.expected.size()));
  }
  client.slow = Percent(options_.slow_client_percent);
  client.leaves = Percent(options_.cancel_percent);
  client.short_deadline = Percent(options_.short_deadline_percent);
  client.budget =
      client.short_deadline
          ? std::chrono::milliseconds(1 + static_cast<std::int64_t>(random_.Below(2000)))
          : options_.deadline;
  return client;
}

// --- clients

Workload::Client* Workload::Find(std::uint64_t number) {
  auto it = by_number_.find(number);
  return it == by_number_.end() ? nullptr : it->second;
}

void Workload::Submit(Client& client) {
  if (client.ended) return;
  if (router_ == nullptr || !router_->alive() || router_->stopped) {
    world_.loop.After(kSubmitAgain, [this, &client] { Submit(client); });
    return;
  }
  router::RequestSpec spec = client.spec;
  client.number = ++last_number_;
  client.due = world_.loop.now() + client.budget;
  by_number_[client.number] = &client;
  if (client.leaves) {
    world_.loop.After(world_.Jitter(std::chrono::milliseconds(40)),
                      [this, &client] { Leave(client); });
  }
  router_->Submit(client.number, client.budget, std::move(spec), [this, &client](Status status) {
    if (!surroundings_.excuse(client, status)) Broken(client, status.ToString());
    ++failed_;
    End(client);
  });
}

void Workload::Leave(Client& client) {
  if (client.ended || router_ == nullptr) return;
  world_.loop.Execute(*router_, [this, &client] {
    if (client.ended || client.gone) return;
    client.gone = true;
    router_->ClientGone(client.number);
  });
}

bool Workload::Leave(std::int32_t index) {
  Client& client = clients_[static_cast<std::size_t>(index - 1)];
  if (client.number == 0 || client.ended) return false;
  Leave(client);
  return true;
}

bool Workload::Pause(std::int32_t index, Time until) {
  Client& client = clients_[static_cast<std::size_t>(index - 1)];
  client.paused_until = until;
  return !client.ended;
}

void Workload::RouterGone(bool for_good) {
  router_ = nullptr;
  for (auto& [number, client] : std::exchange(by_number_, {})) Cut(*client);
  if (!for_good) return;
  for (Client& client : clients_) {
    if (!client.ended) Cut(client);
  }
}

void Workload::Cut(Client& client) {
  ++cut_;
  client.ended = true;
  --left_;
}

void Workload::End(Client& client) {
  client.ended = true;
  by_number_.erase(client.number);
  --left_;
}

std::string Workload::Unfinished() const {
  for (const Client& client : clients_) {
    if (!client.ended) return fmt::format("request {} did not end", client.number);
  }
  return "";
}

// --- what comes out

void Workload::OnComputed(std::uint64_t number, Duration took) {
  if (Client* client = Find(number)) client->computing += took;
}

void Workload::NoteWait(Client& client) {
  const Time now = world_.loop.now();
  const Time since = std::max(client.last_heard, client.arrives);
  client.last_heard = now;
  const Duration computing = std::exchange(client.computing, Duration(0));
  if (client.slow || client.paused_until != Time{}) return;
  if (const Time calm = surroundings_.calm_since(); calm != kNever) {
    const Duration wait = now - std::max(since, calm);
    calm_wait_max_ = std::max(calm_wait_max_, wait);
    if (wait > kProgress) {
      Broken(client, fmt::format("waited for {:.3f} s though a pair worked and nothing went wrong",
                                 ToSeconds(wait)));
    }
    if (now > std::max(client.due, calm) + kDeadlineSlack) {
      Broken(client, "goes on after its deadline");
    }
  }
  const Duration whole = now - since;
  if (!disturbed_ || whole < kPauseFloor) return;
  const Duration beyond = whole - computing - surroundings_.ill_within(since, now);
  if (beyond > client.pause.beyond || client.pause.whole == Duration(0)) {
    client.pause = {whole, std::max(beyond, Duration(0))};
  }
}

std::vector<StreamPause> Workload::Pauses() const {
  std::vector<StreamPause> pauses;
  for (const Client& client : clients_) {
    if (client.pause.whole > Duration(0)) pauses.push_back(client.pause);
  }
  return pauses;
}

void Workload::OnDeliver(const router::Deliver& action, const handoff::PlacementKey& voice) {
  Client* client = Find(action.request.number);
  if (client == nullptr) return world_.Violate("tokens after the end");
  if (client->gone) return Broken(*client, "tokens for a client that left");
  if (action.first.value() != client->received) {
    return Broken(*client,
                  fmt::format("position {} came when {} was next", action.first, client->received));
  }
  if (voice < client->voice) return Broken(*client, "an older attempt or placement speaks again");
  client->voice = voice;
  for (TokenId token : action.tokens) {
    const auto position = static_cast<std::size_t>(client->received++);
    if (position >= client->expected.size() || client->expected[position] != token) {
      return Broken(*client, fmt::format("wrong token at position {}", position));
    }
    if (client->stop_at == static_cast<std::int32_t>(position) && !client->stopped) {
      client->stopped = true;
      world_.loop.After(Duration(1), [this, client, position] {
        if (client->ended || router_ == nullptr) return;
        router_->StopMatched(client->number, Position(static_cast<std::int32_t>(position)));
      });
    }
  }
  NoteWait(*client);
  const bool waiting = client->unread > 0;
  client->unread += static_cast<std::int32_t>(action.tokens.size());
  if (!waiting) Consume(*client);
}

// Takes what was delivered, soon: as much as there is by then.
void Workload::Consume(Client& client) {
  Duration pause = client.slow ? std::chrono::milliseconds(5) : std::chrono::microseconds(800);
  pause = std::max(pause, client.paused_until - world_.loop.now());
  world_.loop.After(pause, [this, &client] {
    if (client.ended || router_ == nullptr) return;
    if (client.paused_until > world_.loop.now()) return Consume(client);
    const std::int32_t take = client.slow ? 1 : client.unread;
    client.unread -= take;
    if (client.unread > 0) Consume(client);
    router_->ClientConsumed(client.number, take);
  });
}

void Workload::OnFinished(const router::Finished& action) {
  Client* client = Find(action.request.number);
  if (client == nullptr) return world_.Violate("a request ended twice");
  if (!action.status.ok() && !client->gone) NoteWait(*client);
  End(*client);
  if (action.status.code() == absl::StatusCode::kCancelled && client->gone) {
    ++cancelled_;
    return;
  }
  if (!action.status.ok()) {
    if (!surroundings_.excuse(*client, action.status)) Broken(*client, action.status.ToString());
    ++failed_;
    return;
  }
  ++done_;
  const bool whole = client->received == static_cast<std::int32_t>(client->expected.size());
  if (!whole && !client->stopped) {
    Broken(*client, fmt::format("ended after {} of {} positions", client->received,
                                client->expected.size()));
  }
  if (action.bill.delivered.value() != client->received) {
    Broken(*client, "the bill miscounts tokens");
  }
}

}  // namespace tandem::sim
