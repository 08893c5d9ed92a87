// Names of KV blocks and layers, as host bookkeeping knows them.
#pragma once

#include <cstdint>

#include "common/base/strong_int.h"

namespace tandem::kv {

struct BlockIdTag {};
struct BlockCountTag {};
struct LayerTag {};
struct GroupTag {};

// Index of a block in one arena, the same for every layer of its group.
using BlockId = StrongInt<BlockIdTag, std::int32_t>;
using BlockCount = StrongInt<BlockCountTag, std::int32_t>;
// The model's layer number.
using Layer = StrongInt<LayerTag, std::int32_t>;
// A KV group: layers that share block size, window and parts. One today.
using GroupId = StrongInt<GroupTag, std::int32_t>;

}  // namespace tandem::kv
