// The metrics of one process, written as Prometheus text. Names are tandem_<part>_<what>_<unit>; no
// request ids as labels. A part declares its metrics in one Probe struct given to its constructor:
//
//   struct Probe {
//     explicit Probe(metrics::Registry& r)
//         : steps(r.AddCounter("tandem_engine_steps_total", "Engine steps run.")) {}
//     metrics::Counter& steps;
//   };
//
// Thread-safe, and so are the metrics; they live as long as the registry.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tandem::metrics {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Labels = std::map<std::string, std::string>;

class Registry {
 public:
  Registry();
  ~Registry();

  // The metric of that name and those labels, made at the first call.
  // Requires: one help text and kind a name; a valid Prometheus name.
  Counter& AddCounter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& AddGauge(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram& AddHistogram(const std::string& name, const std::string& help,
                          const std::vector<double>& bounds, const Labels& labels = {});

  // The text exposition format, version 0.0.4.
  std::string Text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Bounds for durations in seconds: 1 ms … 60 s, three a decade.
std::vector<double> SecondsBounds();

}  // namespace tandem::metrics
