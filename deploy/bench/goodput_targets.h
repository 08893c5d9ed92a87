// What a request must meet to count as good: "ttft:500ms,tpot:50ms".
#pragma once

#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/base/time.h"
#include "deploy/bench/request_record.h"

namespace tandem::deploy {

struct GoodputTargets {
  std::optional<Duration> ttft;
  std::optional<Duration> tpot;
  std::optional<Duration> e2e;

  bool given() const { return ttft || tpot || e2e; }
  // Requires: the request succeeded.
  bool MetBy(const RequestRecord& record) const;
  std::string ToString() const;

  // Pairs NAME:TIME, by commas; names ttft, tpot, e2e; times like 500ms, 1.5s.
  // Errors: InvalidArgument naming the pair.
  static StatusOr<GoodputTargets> Parse(const std::string& text);
};

}  // namespace tandem::deploy
