// A run's figures as a table for people and as JSON for programs.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "deploy/bench/load_run.h"
#include "deploy/bench/request_record.h"
#include "deploy/bench/run_summary.h"

namespace tandem::deploy {

struct BenchReport {
  std::string model;
  double started_unix_s = 0;
  LoadRun::Result run;
  RunSummary summary;
  std::vector<std::string> invalid_because;  // empty: the run is valid

  bool valid() const { return invalid_because.empty(); }
  std::string Table() const;
  // `config`: the options. Its fields are listed in deploy/bench/README.md.
  boost::json::object Json(boost::json::object config) const;
};

// A line of --records.
boost::json::object RecordJson(const RequestRecord& record);

}  // namespace tandem::deploy
