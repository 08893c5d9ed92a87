// What a run sends: request bodies from a file of JSON lines, or of given lengths.
//
// A line is {"prompt": text | "messages": […] | "tokens": [ids]}, with "max_tokens", "seed" and any
// further field of the API; and what is expected of the answer: "expected" (its text),
// "expected_tokens" (how many), "expected_finish". Generated lines have "tokens", drawn by the
// seed. Immutable, so thread-safe.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/bench/length_range.h"
#include "deploy/bench/request_record.h"

namespace tandem::deploy {

struct ExpectedAnswer {
  std::optional<std::string> text;
  std::optional<std::int64_t> tokens;
  std::optional<std::string> finish;

  bool given() const { return text || tokens || finish; }
  // What differs, with the place; empty: nothing. A stream that failed is compared as far as it
  // got.
  std::string Difference(const StreamResult& result) const;
};

struct PromptOptions {
  bool chat = false;          // send a line's "prompt" as a message of the user
  LengthRange prompt_tokens;  // of generated prompts
  LengthRange output_tokens;  // where a line does not say "max_tokens"
  LengthRange token_ids{32, 500};
  std::uint64_t seed = 0;
  std::optional<double> temperature;  // where a line does not say it
  std::string model;
  bool timings = false;
};

class PromptSource {
 public:
  static constexpr std::size_t kLineBytesMax = std::size_t{32} << 20;

  // Errors: InvalidArgument naming file, line and what is wrong there; NotFound.
  static StatusOr<PromptSource> FromFile(const std::string& path, const PromptOptions& options);
  // Every request another prompt. Requires: options.prompt_tokens and output_tokens are given.
  static PromptSource Generated(const PromptOptions& options);

  // Lines of the file; none: as many as are asked for.
  std::optional<std::int64_t> num_lines() const;
  // Which line the `index`th request of a run sends: the file's again and again.
  std::int64_t ItemOf(std::int64_t index) const;

  // A line in the file's form, with all that a repetition of the run needs. "expected…" excluded.
  boost::json::object LineOf(std::int64_t item) const;
  ExpectedAnswer ExpectedOf(std::int64_t item) const;
  // "/v1/completions" or "/v1/chat/completions", and what is posted there.
  std::string PathOf(std::int64_t item) const;
  std::string BodyOf(std::int64_t item) const;

 private:
  struct Line {
    boost::json::object fields;
    ExpectedAnswer expected;
  };
  explicit PromptSource(const PromptOptions& options) : options_(options) {}
  static StatusOr<Line> ReadLine(std::string_view text, bool chat);

  PromptOptions options_;
  bool generated_ = false;
  std::vector<Line> lines_;
};

}  // namespace tandem::deploy
