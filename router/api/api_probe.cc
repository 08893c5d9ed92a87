#include "router/api/api_probe.h"

namespace tandem::router {

ApiProbe::ApiProbe(metrics::Registry& r)
    : registry(r),
      open_requests(r.AddGauge("tandem_router_open_requests", "Completions being answered.")),
      prompt_tokens(r.AddCounter("tandem_router_prompt_tokens_total", "Tokens of prompts taken.")),
      cached_tokens(r.AddCounter("tandem_router_cached_tokens_total",
                                 "Prompt tokens found in a prefill node's prefix cache.")),
      generated_tokens(
          r.AddCounter("tandem_router_generated_tokens_total", "Tokens generated for clients.")),
      unknown_fields(r.AddCounter("tandem_router_unknown_fields_total",
                                  "Fields of requests that are not part of the API.")),
      ttft(r.AddHistogram("tandem_router_ttft_seconds", "A request's arrival to its first token.",
                          metrics::SecondsBounds())),
      itl_mean(r.AddHistogram("tandem_router_itl_seconds",
                              "Mean gap between tokens, by request, the first excluded.",
                              metrics::SecondsBounds())) {}

void ApiProbe::Answered(const std::string& endpoint, int status) {
  registry
      .AddCounter("tandem_router_requests_total", "Requests by endpoint and HTTP status.",
                  {{"endpoint", endpoint}, {"status", std::to_string(status)}})
      .Increment();
}

}  // namespace tandem::router
