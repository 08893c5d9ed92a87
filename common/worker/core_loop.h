// Runs a core (PrefillCore, DecodeCore) on a strand: its clock, its timer, the order of its
// actions.
//
//   events ── Call(&Core::Event, …) ──► Core ──actions──► `act`, one by one, in order
//                  Timer ── OnTime ──►
//
// An event that comes while actions are carried out appends to them. On the strand, unless noted.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "common/handoff/messages.h"
#include "common/net/strand.h"
#include "common/worker/engine_thread.h"
#include "common/worker/node_program.h"

namespace tandem::worker {

template <typename Core, typename Action>
class CoreLoop {
 public:
  // Any thread, before the first event.
  template <typename Config>
  CoreLoop(const net::Strand& strand, const Config& config, std::function<void(Action&)> act)
      : strand_(strand), core_(config), act_(std::move(act)), timer_(strand) {}

  // event(core, now, arguments…, actions), a member of Core or any function; then the actions.
  template <typename Event, typename... Arguments>
  void Call(Event event, Arguments&&... arguments) {
    std::invoke(event, core_, SteadyNow(), std::forward<Arguments>(arguments)..., actions_);
    Run();
  }
  Core& core() { return core_; }
  const Core& core() const { return core_; }

  // For EngineThread; they post.
  EngineThread::Events EngineEvents() {
    EngineThread::Events events;
    events.step_done = [this](std::uint64_t step, std::vector<sequence::SampledToken> tokens,
                              Duration took) {
      strand_.Post([this, step, tokens = std::move(tokens), took] {
        Call(&Core::StepDone, step, tokens, took);
      });
    };
    events.step_failed = [this](std::uint64_t step, Status) {
      strand_.Post([this, step] { Call(&Core::StepFailed, step); });
    };
    return events;
  }

  // Any thread but the strand's.
  void OnStrand(const std::function<void()>& what) { strand_.Run(what); }
  void BeginDrain(Duration budget) {
    strand_.Post([this, budget] { Call(&Core::BeginDrain, budget); });
  }
  void WatchDrain(DrainEvents events) {
    OnStrand([&] {
      drain_events_ = std::move(events);
      Run();
    });
  }
  scheduler::StepProgress Progress() {
    scheduler::StepProgress progress;
    OnStrand([&] { progress = core_.progress(SteadyNow()); });
    return progress;
  }
  // Carries no further action out.
  void Stop() {
    OnStrand([this] {
      stopped_ = true;
      timer_.Cancel();
    });
  }

 private:
  void Run() {
    if (std::exchange(running_, true)) return;  // the loop below takes what was appended
    while (!actions_.empty()) {
      std::vector<Action> batch = std::exchange(actions_, {});
      if (stopped_) continue;
      for (Action& action : batch) act_(action);
    }
    running_ = false;
    if (stopped_) return;
    timer_.Set(core_.NextDeadline(), [this] { Call(&Core::OnTime); });
    if (core_.draining() && drain_events_.begun) std::exchange(drain_events_.begun, nullptr)();
    if (core_.drained() && drain_events_.drained) std::exchange(drain_events_.drained, nullptr)();
  }

  const net::Strand strand_;
  Core core_;
  const std::function<void(Action&)> act_;
  net::Timer timer_;
  std::vector<Action> actions_;
  bool running_ = false;
  bool stopped_ = false;
  DrainEvents drain_events_;
};

// "name=value name=value", for a log line.
std::string ToText(const std::vector<handoff::NodeMetric>& metrics);

}  // namespace tandem::worker
