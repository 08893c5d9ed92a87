// Sends a run's requests when they are due and gathers what becomes of them.
//
//   open loop:   Arrivals ──planned──► send ──► stream, whatever else is in flight
//   closed loop: a slot sends its next request when its last one ended; slots start 1 ms apart, and
//                one whose request failed waits 100 ms, so that a dead server is not hammered
//
// One thread does all: the caller's, inside Run(). OwnLateness tells whether it kept up.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/time.h"
#include "common/client/request_pool.h"
#include "deploy/bench/arrivals.h"
#include "deploy/bench/own_lateness.h"
#include "deploy/bench/prompt_source.h"
#include "deploy/bench/request_record.h"

namespace tandem::deploy {

struct LoadPlan {
  double rate_per_s = 0;  // of the open loop; 0: closed
  Arrivals::Kind arrival = Arrivals::Kind::kPoisson;
  int concurrency = 1;                   // of the closed loop
  std::optional<std::int64_t> requests;  // after the warm-up
  std::optional<Duration> duration;      // of sending, after the warm-up
  Duration warmup{};
  std::uint64_t seed = 0;
  int max_in_flight = 4096;
  Duration late_limit = std::chrono::milliseconds(10);
};

struct LoadProgress {
  Duration elapsed{};
  std::int64_t sent = 0;
  std::int64_t succeeded = 0;
  std::int64_t failed = 0;
  std::int64_t different = 0;
  std::int64_t in_flight = 0;
  std::int64_t events = 0;  // with text
};

class LoadRun {
 public:
  struct Callbacks {
    std::function<void(Duration at)> on_sent;
    std::function<void(const RequestRecord&, const StreamResult&)> on_record;
    std::function<void(const LoadProgress&)> on_progress;  // every progress_every
    Duration progress_every = std::chrono::seconds(1);
    std::function<bool()> enough;  // once true, nothing more is sent and what runs may end
  };
  struct Result {
    Time start{};
    Duration elapsed{};
    std::optional<Duration> window_end;  // where sending ended by time
    std::int64_t in_flight_max = 0;
    double cpu_share = 0;  // of one core, by this thread
    OwnLateness lateness;
    bool interrupted = false;
  };

  // All must outlive the run. Requires: plan.requests or plan.duration.
  LoadRun(const LoadPlan& plan, const PromptSource& prompts, client::RequestPool& pool,
          Callbacks callbacks);
  ~LoadRun();

  // Until everything sent has ended. Once `interrupted`, what runs is cancelled. Called once.
  Result Run(const std::atomic<bool>& interrupted);

 private:
  class Flight;

  void Begin();
  void Tick(Time now);
  void SendDue();
  // When the next request is due; nothing: none will be before another one ends.
  std::optional<Time> NextDue() const;
  // Takes it. False: sending is over.
  bool TakeDue(Time due);
  void Send(Time planned, Time now);
  void OnEnd(Flight& flight, const client::RequestPool::Ended& ended);
  void StopSending(std::optional<Duration> window_end);

  const LoadPlan plan_;
  const PromptSource& prompts_;
  client::RequestPool& pool_;
  const Callbacks callbacks_;

  Time start_{};
  Time next_tick_{};
  Time next_progress_{};
  std::optional<Arrivals> arrivals_;  // open loop
  Time next_arrival_{};
  std::priority_queue<Time, std::vector<Time>, std::greater<>> free_slots_;  // closed loop
  bool sending_ = true;
  std::int64_t next_index_ = 0;
  std::int64_t counted_ = 0;  // sent after the warm-up
  std::unordered_map<Flight*, std::unique_ptr<Flight>> flights_;
  LoadProgress progress_;
  Result result_;
};

}  // namespace tandem::deploy
