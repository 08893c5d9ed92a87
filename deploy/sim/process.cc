#include "deploy/sim/process.h"

#include <fmt/format.h>

#include <utility>

namespace tandem::sim {
namespace {

constexpr Duration kHeartbeatEvery = std::chrono::milliseconds(250);
constexpr Duration kSilenceLimit = std::chrono::seconds(2);
constexpr Duration kHelloTimeout = std::chrono::seconds(2);

}  // namespace

Process::Process(World& world, Network& network, handoff::Role role, std::string name,
                 handoff::Incarnation incarnation)
    : world_(world),
      network_(network),
      incarnation_(incarnation),
      role_(role),
      name_(std::move(name)),
      host_(network.HostOf(name_)) {}

void Process::Broken(const std::string& what) {
  world_.Violate(fmt::format("{}: {}", name_, what));
}

void Process::Start() {
  network_.Listen(*this);
  After(world_.Jitter(kHeartbeatEvery), [this] { Tick(); });
}

void Process::End(bool abrupt) {
  dead = true;
  stopped = false;
  backlog.clear();
  network_.StopListening(*this);
  for (const Ref& ref : open_) {
    if (ref.mine().state != Connection::Side::State::kClosed) {
      network_.Close(*ref.connection, ref.side, abrupt);
    }
  }
  open_.clear();
  joined_.clear();
  Died();
  for (auto& [watcher, gone] : watchers_) {
    watcher->After(world_.Jitter(std::chrono::milliseconds(1)), std::move(gone));
  }
  watchers_.clear();
  if (ended_) ended_(abrupt);
}

void Process::Kill() {
  if (dead) return;
  world_.Trace([&] { return fmt::format("{} is killed", name_); });
  End(true);
}

void Process::Exit() {
  if (dead) return;
  world_.Trace([&] { return fmt::format("{} exits", name_); });
  End(false);
}

void Process::Continue() {
  if (dead || !stopped) return;
  stopped = false;
  tick_late_ = world_.Chance(2);  // what waits to be read, or the timers: either may come first
  for (Callback& run : std::exchange(backlog, {})) {
    world_.loop.At(world_.loop.now(), this, std::move(run));
  }
}

void Process::JumpClock(Duration by) {
  if (dead) return;
  clock_offset_ += by;
  world_.loop.Execute(*this, [this] {
    timer_ = kNever;
    OnTime();
  });
}

void Process::ArmTimer() {
  const Time next = NextDeadline();
  if (next == kNever || next >= timer_) return;
  timer_ = next;
  After(next - now(), [this, next] {
    if (timer_ != next) return;
    timer_ = kNever;
    OnTime();
  });
}

void Process::Watch(Process& watcher, std::function<void()> gone) {
  if (dead) {
    watcher.After(Duration(1), std::move(gone));
    return;
  }
  watchers_.emplace_back(&watcher, std::move(gone));
}

// Heartbeats, and the end of what was silent for too long.
void Process::Tick() {
  if (std::exchange(tick_late_, false)) {
    After(Duration(1), [this] { Tick(); });
    return;
  }
  const Time time = now();
  for (const Ref& ref : std::vector<Ref>(open_)) {
    const Connection::Side& mine = ref.mine();
    if (mine.state == Connection::Side::State::kClosed) continue;
    if (mine.state != Connection::Side::State::kOpen) {
      if (time - mine.opened >= kHelloTimeout) CloseOwn(ref, handoff::Loss::kDied, true);
    } else if (time - mine.last_heard >= kSilenceLimit) {
      CloseOwn(ref, handoff::Loss::kSilent, true);
    }
  }
  std::erase_if(
      open_, [](const Ref& ref) { return ref.mine().state == Connection::Side::State::kClosed; });
  if (!muted()) {
    for (const auto& [peer, ref] : joined_) {
      network_.Send(*ref.connection, 1 - ref.side, {Packet::Kind::kMessage, MakeHeartbeat(peer)});
    }
  }
  After(kHeartbeatEvery, [this] { Tick(); });
}

}  // namespace tandem::sim
