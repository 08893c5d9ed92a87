#include "common/worker/core_loop.h"

#include <fmt/format.h>

namespace tandem::worker {

std::string ToText(const std::vector<handoff::NodeMetric>& metrics) {
  std::string out;
  for (const handoff::NodeMetric& metric : metrics) {
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", metric.name, metric.value);
  }
  return out;
}

}  // namespace tandem::worker
