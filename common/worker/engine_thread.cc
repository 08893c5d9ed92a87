#include "common/worker/engine_thread.h"

#include <pthread.h>
#include <sys/resource.h>

#include <utility>

#include "common/base/check.h"
#include "common/log/log.h"

namespace tandem::worker {

class EngineThread::Observer final : public engine::StepObserver {
 public:
  Observer(const Events& events, std::uint64_t step, CoreTurns* turns)
      : events_(events), step_(step), turns_(turns) {}
  void LayerComputed(kv::Layer layer) override {
    if (events_.layer_computed) events_.layer_computed(step_, layer);
  }
  void MayPause() override {
    if (turns_ != nullptr) paused_ += turns_->GiveWay();
  }
  Duration paused() const { return paused_; }

 private:
  const Events& events_;
  const std::uint64_t step_;
  CoreTurns* const turns_;
  Duration paused_{0};
};

StatusOr<std::unique_ptr<EngineThread>> EngineThread::Start(const model::Model& model,
                                                            engine::KvArena& arena,
                                                            const Options& options, Events events) {
  if (options.nice < 0 || options.nice > 19) {
    return InvalidArgument("nice is {}, must be 0..19", options.nice);
  }
  std::unique_ptr<EngineThread> engine(new EngineThread(std::move(events), options.turns));
  engine->thread_ = std::thread(
      [raw = engine.get(), &model, &arena, options] { raw->Main(model, arena, options); });
  MutexLock lock(engine->mutex_);
  engine->mutex_.Await([&] { return engine->started_; });
  if (!engine->created_.ok()) return engine->created_;
  return engine;
}

EngineThread::~EngineThread() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  thread_.join();
}

void EngineThread::Run(std::uint64_t step, const sequence::Batch* batch, Duration expected) {
  MutexLock lock(mutex_);
  TANDEM_CHECK(batch != nullptr && work_.batch == nullptr && !busy_);
  work_ = {.step = step, .batch = batch, .expected = expected};
}

// The runner is made here, so that its pool's threads inherit this one's priority.
void EngineThread::Main(const model::Model& model, engine::KvArena& arena, const Options& options) {
  ::pthread_setname_np(::pthread_self(), "engine");
  // On Linux this is the calling thread's alone.
  if (options.nice != 0 && ::setpriority(PRIO_PROCESS, 0, options.nice) != 0) {
    log::Warning("engine.nice", "value={} error=\"not permitted\"", options.nice);
  }
  auto runner = engine::ModelRunner::Create(model, arena, options.runner);
  {
    MutexLock lock(mutex_);
    created_ = runner.status();
    started_ = true;
  }
  if (!runner.ok()) return;
  Work work;
  while (AwaitWork(work)) RunStep(**runner, work);
}

bool EngineThread::AwaitWork(Work& work) {
  MutexLock lock(mutex_);
  mutex_.Await([engine = this] { return engine->stop_ || engine->work_.batch != nullptr; });
  if (stop_) return false;
  work = std::exchange(work_, {});
  busy_ = true;
  return true;
}

StatusOr<std::span<const sequence::SampledToken>> EngineThread::Compute(engine::ModelRunner& runner,
                                                                        const Work& work,
                                                                        Duration& took) {
  Observer observer(events_, work.step, turns_);
  if (turns_ != nullptr) turns_->Take(work.expected);
  const Time start = SteadyNow();
  auto sampled = runner.Step(*work.batch, observer);
  took = SteadyNow() - start - observer.paused();
  if (turns_ != nullptr) turns_->Give();
  return sampled;
}

void EngineThread::RunStep(engine::ModelRunner& runner, const Work& work) {
  Duration took{0};
  const auto sampled = Compute(runner, work, took);
  {
    // Before the event, whose receiver may start the next step at once.
    MutexLock lock(mutex_);
    busy_ = false;
  }
  if (!sampled.ok()) {
    log::Error("engine.step_failed", "step={} slices={} error=\"{}\"", work.step,
               work.batch->slices.size(), FromAbsl(sampled.status().message()));
    events_.step_failed(work.step, sampled.status());
    return;
  }
  events_.step_done(work.step,
                    std::vector<sequence::SampledToken>(sampled->begin(), sampled->end()), took);
}

}  // namespace tandem::worker
