// How far logits are from those of a reference, as what comes of them: perplexity and divergence.
#pragma once

#include <string>
#include <vector>

#include "common/base/units.h"
#include "common/model/model.h"

namespace tandem::testing {

using LogitRows = std::vector<std::vector<float>>;  // [tokens - 1, vocab_size]

struct Accuracy {
  double log_perplexity = 0;  // mean of -ln p(next token)
  double divergence = 0;      // mean KL(reference || these) of the next token, in nats
  double worst = 0;           // the largest of one position
};

// Row i is what comes after ids[i]. Requires: ids.size() - 1 rows of equal width in both, ids within
// it.
Accuracy AccuracyOf(const LogitRows& reference, const LogitRows& rows, const TokenIds& ids);

// Logits after every token but the last.
LogitRows RowsOf(const model::Model& model, const TokenIds& ids);

// The first `count` tokens of reference/pride_and_prejudice.txt in the tokenizer of the GGUF file
// `path`, after its bos. Ends the program when a file cannot be read or the text is shorter.
TokenIds OpeningIds(const std::string& path, std::size_t count);

}  // namespace tandem::testing
