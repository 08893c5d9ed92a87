#include "deploy/bench/bench.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <boost/json.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "common/base/descriptor_limit.h"
#include "common/client/openai_client.h"
#include "deploy/bench/bench_report.h"
#include "deploy/bench/expected_writer.h"

namespace tandem::deploy {
namespace {

std::atomic<bool> interrupted{false};  // a signal handler takes no argument
std::atomic<bool> enough{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// SIGTERM ends the sending, and what runs may end; the first SIGINT stops the run, the second the
// program.
void WatchInterrupt() {
  struct sigaction action {};
  action.sa_handler = [](int) { enough = true; };
  ::sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
}

StatusOr<std::string> ModelOf(const BenchOptions& options) {
  if (!options.model.empty()) return options.model;
  TANDEM_ASSIGN_OR_RETURN(auto client, client::OpenAiClient::Create(
                                           {.base_url = options.url, .api_key = options.api_key}));
  TANDEM_ASSIGN_OR_RETURN(auto models, client->Models());
  if (models.empty()) return NotFound("{} serves no model", options.url);
  return models.front();
}

// One line to stderr: rewritten on a terminal, a new one elsewhere.
class ProgressLine {
 public:
  ProgressLine() : terminal_(::isatty(STDERR_FILENO) != 0) {}
  Duration every() const { return std::chrono::seconds(terminal_ ? 1 : 5); }

  void Show(const LoadProgress& now) {
    const double seconds = std::max(ToSeconds(now.elapsed - before_.elapsed), 1e-9);
    std::fprintf(stderr,
                 "%s%.0f s: %lld sent, %lld ok, %lld failed, %lld different, %lld in flight, "
                 "%.0f events/s%s",
                 terminal_ ? "\r\033[K" : "", ToSeconds(now.elapsed),
                 static_cast<long long>(now.sent), static_cast<long long>(now.succeeded),
                 static_cast<long long>(now.failed), static_cast<long long>(now.different),
                 static_cast<long long>(now.in_flight),
                 static_cast<double>(now.events - before_.events) / seconds, terminal_ ? "" : "\n");
    std::fflush(stderr);
    before_ = now;
  }
  void End() {
    if (terminal_) std::fputs("\r\033[K", stderr);
  }

 private:
  const bool terminal_;
  LoadProgress before_;
};

Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << '\n';
  file.close();
  if (!file) return Unavailable("{}: could not be written", path);
  return OkStatus();
}

double UnixNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Runs the load; the report lacks only its model.
StatusOr<BenchReport> Measure(const BenchOptions& options, const PromptSource& prompts,
                              ExpectedWriter& expected) {
  TANDEM_ASSIGN_OR_RETURN(
      auto pool, client::RequestPool::Create({.server = {.base_url = options.url,
                                                         .api_key = options.api_key,
                                                         .silence_timeout = Duration::zero()},
                                              .request_timeout = options.timeout}));
  std::ofstream records;
  if (!options.records.empty()) {
    records.open(options.records, std::ios::binary | std::ios::trunc);
    if (!records) return Unavailable("--records {}: cannot be written", options.records);
  }
  RunCollector collector(options.warmup, options.Targets());
  ProgressLine progress;
  LoadRun::Callbacks callbacks;
  callbacks.on_sent = [&](Duration at) { collector.OnSent(at); };
  Time start{};
  callbacks.on_record = [&](const RequestRecord& record, const StreamResult& result) {
    start = result.end - record.end;
    collector.Add(record, result.text_times, start, prompts.ExpectedOf(record.item).given());
    if (records.is_open()) records << boost::json::serialize(RecordJson(record)) << '\n';
    if (!options.record_expected.empty()) expected.Add(record, result);
  };
  callbacks.on_progress = [&](const LoadProgress& now) { progress.Show(now); };
  callbacks.progress_every = progress.every();
  callbacks.enough = [] { return enough.load(); };
  LoadRun run(options.MakePlan(prompts), prompts, *pool, std::move(callbacks));
  const double started_unix_s = UnixNow();
  LoadRun::Result result = run.Run(interrupted);
  progress.End();
  records.close();
  if (!options.records.empty() && !records) {
    return Unavailable("--records {}: could not be written", options.records);
  }
  BenchReport report{.model = {},
                     .started_unix_s = started_unix_s,
                     .run = std::move(result),
                     .summary = {},
                     .invalid_because = {}};
  report.summary = collector.Finish(report.run.window_end);
  report.invalid_because = report.run.lateness.Faults(report.run.elapsed);
  return report;
}

}  // namespace

StatusOr<int> Bench(const BenchOptions& options) {
  TANDEM_RETURN_IF_ERROR(options.Validate());
  RaiseDescriptorLimit();
  TANDEM_ASSIGN_OR_RETURN(const std::string model, ModelOf(options));
  TANDEM_ASSIGN_OR_RETURN(const PromptSource prompts, options.MakePrompts(model));
  WatchInterrupt();
  ExpectedWriter expected;
  TANDEM_ASSIGN_OR_RETURN(BenchReport report, Measure(options, prompts, expected));
  report.model = model;
  std::fputs(report.Table().c_str(), stdout);
  if (!options.json.empty()) {
    TANDEM_RETURN_IF_ERROR(
        WriteFile(options.json, boost::json::serialize(report.Json(options.ToJson()))));
  }
  if (!options.record_expected.empty()) {
    TANDEM_RETURN_IF_ERROR(expected.Write(prompts, options.record_expected));
  }
  if (!report.valid()) return kExitInvalidRun;
  return report.summary.failed() + report.summary.different > 0 ? kExitFailures : 0;
}

}  // namespace tandem::deploy
