#include "router/api/timings.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/json_string.h"

namespace tandem::router {
namespace {

Duration Between(Time from, Time to) {
  return from == Time{} || to == Time{} ? Duration::zero() : std::max(to - from, Duration::zero());
}

}  // namespace

Duration MeanItl(const Bill& bill) {
  if (bill.delivered <= TokenCount(1)) return Duration::zero();
  return Between(bill.first_token, bill.last_token) / (bill.delivered.value() - 1);
}

std::string TimingsJson(const RequestTimes& times, const Bill& bill) {
  const handoff::PhaseTimes& phases = bill.times;
  return fmt::format(
      R"({{"attempts":{},"placements":{},"prefill_node":{},"decode_node":{},)"
      R"("prepare_ms":{:.3f},"queue_ms":{:.3f},"prefill_ms":{:.3f},)"
      R"("transfer_ms":{:.3f},"transfer_exposed_ms":{:.3f},"transfer_bytes":{},)"
      R"("ttft_ms":{:.3f},"itl_mean_ms":{:.3f},"itl_max_ms":{:.3f},"total_ms":{:.3f},)"
      R"("computed_tokens":{},"cached_tokens":{},"held_tokens":{}}})",
      bill.attempts, bill.placements, JsonString(bill.prefill_node), JsonString(bill.decode_node),
      ToMillis(Between(times.received, times.submitted)),
      ToMillis(Between(bill.arrived, bill.dispatched) + phases.queued), ToMillis(phases.prefill),
      ToMillis(phases.transfer), ToMillis(phases.transfer_exposed), phases.transfer_bytes,
      ToMillis(Between(times.received, times.first_text)), ToMillis(MeanItl(bill)),
      ToMillis(bill.pause_max), ToMillis(Between(times.received, bill.last_token)),
      phases.computed_tokens, phases.cached_tokens, phases.held_tokens);
}

}  // namespace tandem::router
