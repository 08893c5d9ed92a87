#include "common/worker/engine_thread.h"

#include <pthread.h>
#include <sys/resource.h>

#include <utility>

#include "common/base/check.h"
#include "common/log/log.h"

namespace tandem::worker {

class EngineThread::Observer final : public engine::StepObserver {
 public:
  Observer(const Events& events, std::uint64_t step) : events_(events), step_(step) {}
  void LayerComputed(kv::Layer layer) override {
    if (events_.layer_computed) events_.layer_computed(step_, layer);
  }

 private:
  const Events& events_;
  const std::uint64_t step_;
};

StatusOr<std::unique_ptr<EngineThread>> EngineThread::Start(const model::Model& model,
                                                            engine::KvArena& arena,
                                                            const Options& options, Events events) {
  if (options.nice < 0 || options.nice > 19) {
    return InvalidArgument("nice is {}, must be 0..19", options.nice);
  }
  std::unique_ptr<EngineThread> engine(new EngineThread(std::move(events)));
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

void EngineThread::Run(std::uint64_t step, const sequence::Batch* batch) {
  MutexLock lock(mutex_);
  TANDEM_CHECK(batch != nullptr && batch_ == nullptr && !busy_);
  step_ = step;
  batch_ = batch;
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
    if (runner.ok()) numerics_ = (*runner)->numerics_class();
  }
  if (!runner.ok()) return;
  std::uint64_t step = 0;
  const sequence::Batch* batch = nullptr;
  while (AwaitWork(step, batch)) RunStep(**runner, step, *batch);
}

bool EngineThread::AwaitWork(std::uint64_t& step, const sequence::Batch*& batch) {
  MutexLock lock(mutex_);
  mutex_.Await([engine = this] { return engine->stop_ || engine->batch_ != nullptr; });
  if (stop_) return false;
  step = step_;
  batch = std::exchange(batch_, nullptr);
  busy_ = true;
  return true;
}

void EngineThread::RunStep(engine::ModelRunner& runner, std::uint64_t step,
                           const sequence::Batch& batch) {
  Observer observer(events_, step);
  const Time start = SteadyNow();
  const auto sampled = runner.Step(batch, observer);
  const Duration took = SteadyNow() - start;
  {
    // Before the event, whose receiver may start the next step at once.
    MutexLock lock(mutex_);
    busy_ = false;
  }
  if (!sampled.ok()) {
    log::Error("engine.step_failed", "step={} slices={} error=\"{}\"", step, batch.slices.size(),
               FromAbsl(sampled.status().message()));
    events_.step_failed(step, sampled.status());
    return;
  }
  events_.step_done(step, std::vector<sequence::SampledToken>(sampled->begin(), sampled->end()),
                    took);
}

}  // namespace tandem::worker
