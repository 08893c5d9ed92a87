// Turns at computing, for the engines of one host that share its cores; the rule is
// common/scheduler/turn_policy.h, the words are in common/worker/core_group.h.
//
//   turns->Take(expected);            // a step: waits for its turn
//     … compute …
//     turns->GiveWay();               // prefill, where it costs little: lets decoding run, if it
//     waits … compute …
//   turns->Give();                    // the turn goes to whoever is next
//
// A member that has ended is passed over at once, one that holds its turn and is stopped or hangs
// after TurnPatience: it is taken for absent until it speaks again, and then waits like the others.
// So nobody waits for ever, at worst two compute at a time.
//
// Take, GiveWay and Give are the engine thread's; slice and stats any thread's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/scheduler/turn_policy.h"
#include "common/worker/core_group.h"

namespace tandem::worker {

class CoreTurns {
 public:
  struct Options {
    scheduler::TurnRole role = scheduler::TurnRole::kDecode;
    Duration itl_target{0};  // decode: see scheduler::SliceFor
  };
  struct Stats {
    std::int64_t turns = 0;
    std::int64_t given_way = 0;    // prefill: turns given away inside a step
    std::int64_t passed_over = 0;  // others that had ended, or held their turn too long
    Duration waited{0};
    Duration slice{0};  // decode: left to prefill now; prefill: that it may take now
  };

  // Errors: those of CoreGroup::Join.
  static StatusOr<std::unique_ptr<CoreTurns>> Join(const std::string& group,
                                                   const Options& options);
  ~CoreTurns();  // gives its turn away

  // Waits for a turn and has it until Give; returns how long it waited. `expected`: of the step
  // that it is for; zero: not known. Requires: it has none.
  Duration Take(Duration expected);
  // Requires: between Take and Give. Decode: does nothing. Returns how long it waited.
  Duration GiveWay();
  void Give();

  // The shortest slice that decode members leave which compute now; zero: none does.
  Duration slice() const;
  Stats stats() const;

 private:
  using Slot = CoreGroup::Slot;
  struct Members;

  CoreTurns(std::unique_ptr<CoreGroup> group, const Options& options);
  Members Look() const;
  Slot& own() const { return group_->slot(group_->own()); }
  void Publish(Time now, Duration expected);
  Duration Await(Time since);
  void PassOver(std::uint64_t turn, Time now);
  bool GiveNext(std::uint64_t turn, Time now);

  const std::unique_ptr<CoreGroup> group_;
  const Options options_;
  // The engine thread's.
  Time given_at_{};  // the last Give
  std::uint64_t given_turn_ = 0;
  Duration pause_{0};  // of StepRhythm
  // Prefill: a piece is what lies between two places where it may stop.
  Time piece_began_{};
  Duration piece_{0};  // the longer of the last two, or predicted; zero: not known
  Duration last_piece_{0};
  std::int64_t pieces_ = 0;           // of this step, so far
  std::int64_t pieces_per_step_ = 0;  // of the step before

  std::atomic<std::int64_t> turns_{0};
  std::atomic<std::int64_t> given_way_{0};
  std::atomic<std::int64_t> passed_over_{0};
  std::atomic<std::int64_t> waited_ns_{0};
};

}  // namespace tandem::worker
