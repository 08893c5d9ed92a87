// One engine step: slices of sequences, ragged. A slice is a prompt chunk or a single generated
// token; the engine does not care which. Host-only values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/units.h"
#include "common/kv/ids.h"
#include "common/sequence/sampling_params.h"

namespace tandem::sequence {

// Whoever builds the batch names its slices; the engine hands the tag back.
struct SliceTagTag {};
using SliceTag = StrongInt<SliceTagTag, std::uint64_t>;

struct Slice {
  SliceTag tag;
  TokenIndex first{0};              // index of tokens[0] from the prompt's start
  std::span<const TokenId> tokens;  // [num_tokens >= 1] computed in this step
  // [ceil((first + num_tokens) / block_size)] at least; the blocks of every earlier token hold its
  // KV.
  std::span<const kv::BlockId> block_table;
  // Set: sample a token after tokens.back(), as generated position `position`.
  const SamplingParams* sample = nullptr;
  Position position{0};
};

struct Batch {
  std::vector<Slice> slices;
  std::int64_t num_tokens() const {
    std::int64_t n = 0;
    for (const Slice& s : slices) n += static_cast<std::int64_t>(s.tokens.size());
    return n;
  }
};

struct SampledToken {
  SliceTag tag;
  TokenId token;
  float logprob;  // natural log, of the distribution before temperature and filters
};

}  // namespace tandem::sequence
