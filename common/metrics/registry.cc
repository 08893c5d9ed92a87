#include "common/metrics/registry.h"

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>

namespace tandem::metrics {

// prometheus::Registry makes a new family for a name it has, so families are kept here by name.
struct Registry::State {
  prometheus::Registry registry;
  std::mutex mutex;
  std::map<std::string, prometheus::Family<Counter>*> counters;
  std::map<std::string, prometheus::Family<Gauge>*> gauges;
  std::map<std::string, prometheus::Family<Histogram>*> histograms;

  template <typename Builder, typename T>
  prometheus::Family<T>& FamilyOf(std::map<std::string, prometheus::Family<T>*>& families,
                                  Builder builder, const std::string& name,
                                  const std::string& help) {
    std::lock_guard lock(mutex);
    auto [it, added] = families.try_emplace(name, nullptr);
    if (added) it->second = &builder.Name(name).Help(help).Register(registry);
    return *it->second;
  }
};

Registry::Registry() : state_(std::make_unique<State>()) {}
Registry::~Registry() = default;

Counter& Registry::AddCounter(const std::string& name, const std::string& help,
                              const Labels& labels) {
  return state_->FamilyOf(state_->counters, prometheus::BuildCounter(), name, help).Add(labels);
}

Gauge& Registry::AddGauge(const std::string& name, const std::string& help, const Labels& labels) {
  return state_->FamilyOf(state_->gauges, prometheus::BuildGauge(), name, help).Add(labels);
}

Histogram& Registry::AddHistogram(const std::string& name, const std::string& help,
                                  const std::vector<double>& bounds, const Labels& labels) {
  return state_->FamilyOf(state_->histograms, prometheus::BuildHistogram(), name, help)
      .Add(labels, bounds);
}

std::string Registry::Text() const {
  return prometheus::TextSerializer().Serialize(state_->registry.Collect());
}

std::vector<double> SecondsBounds() {
  return {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60};
}

}  // namespace tandem::metrics
