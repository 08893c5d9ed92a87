#include "deploy/bench/load_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "deploy/bench/stream_reader.h"

namespace tandem::deploy {
namespace {

constexpr Duration kSlotsApart = std::chrono::milliseconds(1);
// An open loop that is so late gives requests up, instead of sending for ever what was due long
// ago.
constexpr Duration kTooLate = std::chrono::seconds(1);
constexpr Duration kPauseAfterFailure = std::chrono::milliseconds(100);
// Between two looks at the sockets, so that sending never starves reading.
constexpr int kSendsAtOnceMax = 64;

Duration ThreadCpu() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  const auto of = [](const timeval& t) {
    return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

}  // namespace

class LoadRun::Flight : public client::RequestPool::Sink {
 public:
  Flight(LoadRun& run, std::int64_t index, Time planned, Time sent)
      : run_(run), index_(index), planned_(planned), sent_(sent) {}

  void OnStatus(int status) override { reader_.OnStatus(status); }
  bool OnBody(std::string_view bytes) override {
    const std::int64_t before = reader_.num_events();
    const bool more = reader_.OnBody(bytes, SteadyNow());
    run_.progress_.events += reader_.num_events() - before;
    return more;
  }
  void OnEnd(const client::RequestPool::Ended& ended) override { run_.OnEnd(*this, ended); }

  StreamReader& reader() { return reader_; }
  std::int64_t index() const { return index_; }
  Time planned() const { return planned_; }
  Time sent() const { return sent_; }

 private:
  LoadRun& run_;
  const std::int64_t index_;
  const Time planned_;
  const Time sent_;
  StreamReader reader_;
};

LoadRun::LoadRun(const LoadPlan& plan, const PromptSource& prompts, client::RequestPool& pool,
                 Callbacks callbacks)
    : plan_(plan),
      prompts_(prompts),
      pool_(pool),
      callbacks_(std::move(callbacks)),
      result_{.lateness = OwnLateness(plan.late_limit)} {
  TANDEM_CHECK(plan.requests || plan.duration);
}

LoadRun::~LoadRun() = default;

void LoadRun::Begin() {
  start_ = result_.start = SteadyNow();
  next_tick_ = start_ + OwnLateness::kTick;
  next_progress_ = start_ + callbacks_.progress_every;
  if (plan_.rate_per_s > 0) {
    arrivals_.emplace(plan_.arrival, plan_.rate_per_s, plan_.seed);
    next_arrival_ = start_ + arrivals_->Next();
    return;
  }
  for (int slot = 0; slot < plan_.concurrency; ++slot) {
    free_slots_.push(start_ + slot * kSlotsApart);
  }
}

LoadRun::Result LoadRun::Run(const std::atomic<bool>& interrupted) {
  const Duration cpu_before = ThreadCpu();
  Begin();
  while (sending_ || !flights_.empty()) {
    Tick(SteadyNow());
    if (interrupted && !result_.interrupted) {
      result_.interrupted = true;
      if (sending_) StopSending(SteadyNow() - start_);
      pool_.AbortAll();
    }
    if (sending_ && callbacks_.enough && callbacks_.enough()) StopSending(SteadyNow() - start_);
    SendDue();
    if (!sending_ && flights_.empty()) break;
    pool_.Poll(std::min(NextDue().value_or(next_tick_), next_tick_));
  }
  result_.elapsed = SteadyNow() - start_;
  result_.cpu_share =
      ToSeconds(ThreadCpu() - cpu_before) / std::max(ToSeconds(result_.elapsed), 1e-9);
  return std::move(result_);
}

void LoadRun::Tick(Time now) {
  if (now >= next_tick_) {
    result_.lateness.OnTick(now - next_tick_);
    next_tick_ = now + OwnLateness::kTick;
  }
  if (now >= next_progress_ && callbacks_.on_progress) {
    next_progress_ = now + callbacks_.progress_every;
    progress_.elapsed = now - start_;
    progress_.in_flight = static_cast<std::int64_t>(flights_.size());
    callbacks_.on_progress(progress_);
  }
}

std::optional<Time> LoadRun::NextDue() const {
  if (!sending_) return std::nullopt;
  if (arrivals_) return next_arrival_;
  return free_slots_.empty() ? std::nullopt : std::optional(free_slots_.top());
}

bool LoadRun::TakeDue(Time due) {
  const Duration planned = due - start_;
  if (plan_.duration && planned >= plan_.warmup + *plan_.duration) {
    StopSending(plan_.warmup + *plan_.duration);
    return false;
  }
  if (plan_.requests && counted_ >= *plan_.requests) {
    StopSending(std::nullopt);
    return false;
  }
  if (planned >= plan_.warmup) ++counted_;
  if (arrivals_) {
    next_arrival_ = start_ + arrivals_->Next();
  } else {
    free_slots_.pop();
  }
  return true;
}

void LoadRun::SendDue() {
  for (int i = 0; i < kSendsAtOnceMax; ++i) {
    const Time now = SteadyNow();
    // A closed loop with every slot busy may have sent its last request.
    if (sending_ && plan_.requests && counted_ >= *plan_.requests) StopSending(std::nullopt);
    const std::optional<Time> due = NextDue();
    if (!due || *due > now || !TakeDue(*due)) break;
    Send(*due, now);
  }
  // Nothing may be due any more when the time is over.
  const bool over = plan_.duration && SteadyNow() - start_ >= plan_.warmup + *plan_.duration;
  const std::optional<Time> due = NextDue();
  if (sending_ && over && (!due || *due >= start_ + plan_.warmup + *plan_.duration)) {
    StopSending(plan_.warmup + *plan_.duration);
  }
}

void LoadRun::StopSending(std::optional<Duration> window_end) {
  sending_ = false;
  result_.window_end = window_end;
}

void LoadRun::Send(Time planned, Time now) {
  const std::int64_t index = next_index_++;
  if (flights_.size() >= static_cast<std::size_t>(plan_.max_in_flight) ||
      now - planned > kTooLate) {
    result_.lateness.OnNotSent();
    return;
  }
  result_.lateness.OnSend(now - planned);
  const std::int64_t item = prompts_.ItemOf(index);
  auto flight = std::make_unique<Flight>(*this, index, planned, now);
  Flight& sink = *flight;
  flights_.emplace(&sink, std::move(flight));
  ++progress_.sent;
  result_.in_flight_max =
      std::max(result_.in_flight_max, static_cast<std::int64_t>(flights_.size()));
  if (callbacks_.on_sent) callbacks_.on_sent(now - start_);
  pool_.Start(prompts_.PathOf(item), prompts_.BodyOf(item), sink);
}

void LoadRun::OnEnd(Flight& flight, const client::RequestPool::Ended& ended) {
  const Time now = SteadyNow();
  const StreamResult result = flight.reader().Finish(ended, now);
  RequestRecord record = MakeRecord(result, start_, flight.planned(), flight.sent());
  record.index = flight.index();
  record.item = prompts_.ItemOf(record.index);
  if (record.outcome != Outcome::kCancelled) {
    record.difference = prompts_.ExpectedOf(record.item).Difference(result);
  }
  const bool ok = record.outcome == Outcome::kOk;
  ++(ok ? progress_.succeeded : progress_.failed);
  if (!record.difference.empty()) ++progress_.different;
  if (callbacks_.on_record) callbacks_.on_record(record, result);
  if (!arrivals_) free_slots_.push(ok ? now : now + kPauseAfterFailure);
  flights_.erase(&flight);  // the last use of `flight`
}

}  // namespace tandem::deploy
