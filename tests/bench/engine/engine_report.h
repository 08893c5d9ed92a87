// What the engine benchmark found, as text and as JSON.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/engine/stage_times.h"
#include "tests/bench/engine/ceiling.h"
#include "tests/bench/engine/stage_work.h"

namespace tandem::bench {

// One stage of one run: the mean over threads, and the rates that all of them reached together
// while they were in it.
struct StageRow {
  engine::Stage stage;
  double seconds;
  double share;       // of the run
  double giga_ops_s;  // 0: the stage has no counted arithmetic
  double gb_s;        // 0: no counted bytes
};

struct Profile {
  double seconds = 0;            // of the run
  double linear_giga_ops_s = 0;  // matrix products, over the time of their stages
  double weights_gb_s = 0;       // weight bytes over the whole run
  std::vector<StageRow> stages;  // those that took time
};

Profile ProfileOf(double seconds, const engine::StageTimes& times, const StageWork& work);

// One case of the benchmark: "prefill 512", "decode 8".
struct CaseResult {
  std::string name;
  std::vector<double> tokens_per_s;  // a round each
  std::optional<Profile> profile;

  double Median() const;
};

struct EngineReport {
  std::string model;
  std::string numerics_class;
  int threads = 0;
  double load_seconds = 0;
  double packed_mb = 0;
  std::vector<CaseResult> cases;
  std::optional<Ceiling> ceiling;

  boost::json::object ToJson() const;
  std::string ToText() const;
};

}  // namespace tandem::bench
