#include "tests/integration/engine/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "common/base/check.h"
#include "common/formats/gguf.h"
#include "common/tokenizer/tokenizer_loader.h"
#include "tests/integration/engine/reference_file.h"

namespace tandem::testing {
namespace {

// ln of the sum of exponentials.
double LogSum(const std::vector<float>& logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  return max + std::log(sum);
}

}  // namespace

Accuracy AccuracyOf(const LogitRows& reference, const LogitRows& rows, const TokenIds& ids) {
  TANDEM_CHECK(rows.size() == reference.size() && rows.size() + 1 == ids.size());
  Accuracy accuracy;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    TANDEM_CHECK(rows[i].size() == reference[i].size());
    const double expected = LogSum(reference[i]);
    const double actual = LogSum(rows[i]);
    double divergence = actual - expected;  // sum of p (ln p - ln q)
    for (std::size_t j = 0; j < rows[i].size(); ++j) {
      const double p = std::exp(double{reference[i][j]} - expected);
      divergence += p * (double{reference[i][j]} - double{rows[i][j]});
    }
    accuracy.divergence += divergence;
    accuracy.worst = std::max(accuracy.worst, divergence);
    accuracy.log_perplexity += actual - rows[i][static_cast<std::size_t>(ids[i + 1].value())];
  }
  const auto count = static_cast<double>(rows.size());
  accuracy.divergence /= count;
  accuracy.log_perplexity /= count;
  return accuracy;
}

LogitRows RowsOf(const model::Model& model, const TokenIds& ids) {
  return LogitsAfter(model, TokenIds(ids.begin(), ids.end() - 1), ids.size() - 1);
}

TokenIds OpeningIds(const std::string& path, std::size_t count) {
  std::ifstream in(ReferencePath("pride_and_prejudice.txt"));
  std::stringstream text;
  text << in.rdbuf();
  auto file = formats::GgufFile::Open(path);
  TANDEM_CHECK(file.ok());
  auto tokenizer = tokenizer::LoadTokenizerFromGguf(*file);
  TANDEM_CHECK(tokenizer.ok());
  auto ids = tokenizer->Encode(MarkedText::FromUser(text.str()), {.add_special_tokens = true});
  TANDEM_CHECK(ids.ok());
  if (ids->size() < count) fmt::print(stderr, "the text has {} tokens\n", ids->size());
  TANDEM_CHECK(ids->size() >= count);
  ids->resize(count, TokenId(0));
  return *std::move(ids);
}

}  // namespace tandem::testing
