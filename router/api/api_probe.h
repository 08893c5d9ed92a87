// The API's own metrics.
#pragma once

#include <string>

#include "common/metrics/registry.h"

namespace tandem::router {

struct ApiProbe {
  explicit ApiProbe(metrics::Registry& registry);

  // One answered request; status 499 where the client left.
  void Answered(const std::string& endpoint, int status);

  metrics::Registry& registry;
  metrics::Gauge& open_requests;
  metrics::Counter& prompt_tokens;
  metrics::Counter& cached_tokens;
  metrics::Counter& generated_tokens;
  metrics::Counter& unknown_fields;
  metrics::Histogram& ttft;
  metrics::Histogram& itl_mean;
};

}  // namespace tandem::router
