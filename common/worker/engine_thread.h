// The thread that computes: runs one engine step at a time, apart from the strand that decides.
//
//   strand            engine thread (and the runner's pool)
//     Run(step) ────►  its turn at the cores, where they are shared; ModelRunner::Step
//                      layer_computed(step, layer)…
//                      step_done(step, tokens, took) or step_failed
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "common/engine/model_runner.h"
#include "common/kv/ids.h"
#include "common/sequence/batch.h"
#include "common/worker/core_turns.h"

namespace tandem::worker {

class EngineThread {
 public:
  struct Options {
    engine::ModelRunner::Options runner;
    // Priority of the computing threads against others of this host, 0..19; 19 gives way most.
    int nice = 0;
    // At computing, with other engines of this host; outlives the thread. Null: it has its own
    // cores.
    CoreTurns* turns = nullptr;
  };
  // Called on the engine thread: they only hand on.
  struct Events {
    std::function<void(std::uint64_t step, kv::Layer)> layer_computed;  // may be empty
    // `took`: computing, without waiting for turns.
    std::function<void(std::uint64_t step, std::vector<sequence::SampledToken>, Duration took)>
        step_done;
    std::function<void(std::uint64_t step, Status)> step_failed;
  };

  // `model` and `arena` outlive it. Errors: those of ModelRunner::Create.
  static StatusOr<std::unique_ptr<EngineThread>> Start(const model::Model& model,
                                                       engine::KvArena& arena,
                                                       const Options& options, Events events);
  // Waits for the step that runs, then ends the thread. No event follows.
  ~EngineThread();

  // `batch` and what it points to stay as they are until step_done or step_failed. `expected`: how
  // long it will probably take; zero: not known. Requires: no step runs. Any thread.
  void Run(std::uint64_t step, const sequence::Batch* batch, Duration expected);

 private:
  class Observer;
  EngineThread(Events events, CoreTurns* turns) : events_(std::move(events)), turns_(turns) {}
  void Main(const model::Model& model, engine::KvArena& arena, const Options& options);
  struct Work {
    std::uint64_t step = 0;
    const sequence::Batch* batch = nullptr;  // null: nothing to run
    Duration expected{0};
  };
  bool AwaitWork(Work& work);
  void RunStep(engine::ModelRunner& runner, const Work& work);
  StatusOr<std::span<const sequence::SampledToken>> Compute(engine::ModelRunner& runner,
                                                            const Work& work, Duration& took);

  const Events events_;
  CoreTurns* const turns_;
  Mutex mutex_;
  Status created_ ABSL_GUARDED_BY(mutex_);
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  Work work_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tandem::worker
