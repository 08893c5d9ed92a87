// Gathers the answers of an undisturbed run and writes the prompts with them, as what later runs
// must get.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/base/status.h"
#include "deploy/bench/prompt_source.h"
#include "deploy/bench/request_record.h"

namespace tandem::deploy {

class ExpectedWriter {
 public:
  void Add(const RequestRecord& record, const StreamResult& result);

  // One line per item that was answered, in order.
  // Errors: FailedPrecondition when a request failed, or one item got two answers: nothing is
  // written; Unavailable naming the file.
  Status Write(const PromptSource& prompts, const std::string& path) const;

 private:
  struct Answer {
    std::string text;
    std::int64_t tokens = 0;
    bool usage = false;
    std::string finish_reason;
    bool operator==(const Answer&) const = default;
  };
  std::map<std::int64_t, Answer> answers_;
  std::string spoilt_by_;  // the first reason not to write
};

}  // namespace tandem::deploy
