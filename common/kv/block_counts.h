// Where the blocks of one pool are; the five parts add up to `total`.
#pragma once

#include "common/kv/ids.h"

namespace tandem::kv {

struct BlockCounts {
  BlockCount total{0};
  BlockCount free{0};
  BlockCount used{0};         // referenced by a task, reservation or sequence
  BlockCount cached{0};       // findable by hash, referenced by nobody: evictable
  BlockCount quarantined{0};  // a remote writer may still touch them
  BlockCount available() const { return free + cached; }
  bool operator==(const BlockCounts&) const = default;
};

}  // namespace tandem::kv
