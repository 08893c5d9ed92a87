// The committed reference files, and what a runner answers, in one form.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/units.h"
#include "common/model/model.h"

namespace tandem::testing {

// One prompt of smollm2.json, or of a file of the same form.
struct ReferencePrompt {
  std::string text;
  TokenIds ids;
  std::vector<std::pair<TokenId, float>> top20;  // after the prompt
  TokenIds greedy;
  std::vector<float> margin;  // of each greedy token over the next best
};

// A file of `reference/`, or any other by its path. Ends the test program when it cannot be read.
boost::json::value ReadReference(const std::string& path);
std::string ReferencePath(std::string_view name);
TokenIds IdsOf(const boost::json::value& list);
std::vector<ReferencePrompt> PromptsOf(const boost::json::value& file);

// Logits after each of the last `count` tokens, teacher-forced: the tokens before them in one step,
// then one token a step. [count, vocab_size]
std::vector<std::vector<float>> LogitsAfter(const model::Model& model, const TokenIds& tokens,
                                            std::size_t count, int threads = 2);

}  // namespace tandem::testing
