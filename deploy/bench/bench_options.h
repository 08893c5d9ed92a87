// What `tandem bench` can be told.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "common/base/status.h"
#include "common/config/program_options.h"
#include "deploy/bench/goodput_targets.h"
#include "deploy/bench/length_range.h"
#include "deploy/bench/load_run.h"
#include "deploy/bench/prompt_source.h"

namespace tandem::deploy {

struct BenchOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string api_key;
  std::string model;  // empty: the server's first
  std::string endpoint = "completions";

  double rate = 0;  // requests/s; 0: closed loop
  std::string arrival = "poisson";
  int concurrency = 0;  // 0: 1, or an open loop
  int requests = 0;     // 0: not given
  Duration duration{};  // zero: not given
  Duration warmup{};
  int seed = 0;

  std::string prompts;  // a file
  LengthRange prompt_tokens;
  LengthRange output_tokens;
  LengthRange token_ids{32, 500};
  double temperature = -1;  // below 0: what the line says, or the server's default
  bool timings = false;

  Duration timeout = std::chrono::minutes(10);
  int max_in_flight = 4096;
  Duration late_limit = std::chrono::milliseconds(10);
  std::string goodput;

  std::string json;
  std::string records;
  std::string record_expected;

  void Register(config::ProgramOptions& options);
  // Errors: InvalidArgument naming the flag, its value and the fix.
  Status Validate() const;

  StatusOr<PromptSource> MakePrompts(const std::string& model_id) const;
  LoadPlan MakePlan(const PromptSource& prompts) const;
  // Requires: Validate() passed.
  GoodputTargets Targets() const { return *GoodputTargets::Parse(goodput); }
  // All of it but the key, for the report.
  boost::json::object ToJson() const;
};

}  // namespace tandem::deploy
