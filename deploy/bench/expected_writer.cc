#include "deploy/bench/expected_writer.h"

#include <boost/json.hpp>
#include <fstream>

namespace tandem::deploy {

void ExpectedWriter::Add(const RequestRecord& record, const StreamResult& result) {
  if (record.outcome != Outcome::kOk) {
    if (spoilt_by_.empty()) {
      spoilt_by_ = fmt::format("request {}: {}: {}", record.index, OutcomeName(record.outcome),
                               record.detail);
    }
    return;
  }
  Answer answer{result.text, record.tokens, record.usage, record.finish_reason};
  const auto [at, added] = answers_.try_emplace(record.item, answer);
  if (!added && !(at->second == answer) && spoilt_by_.empty()) {
    spoilt_by_ = fmt::format("request {}: line {} was answered differently before", record.index,
                             record.item + 1);
  }
}

Status ExpectedWriter::Write(const PromptSource& prompts, const std::string& path) const {
  if (!spoilt_by_.empty()) {
    return FailedPrecondition("{} is not written: the run was disturbed ({})", path, spoilt_by_);
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  for (const auto& [item, answer] : answers_) {
    boost::json::object line = prompts.LineOf(item);
    line["expected"] = answer.text;
    if (answer.usage) line["expected_tokens"] = answer.tokens;
    line["expected_finish"] = answer.finish_reason;
    file << boost::json::serialize(line) << '\n';
  }
  file.close();
  if (!file) return Unavailable("{}: could not be written", path);
  return OkStatus();
}

}  // namespace tandem::deploy
