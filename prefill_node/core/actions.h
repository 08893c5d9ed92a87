// What PrefillCore asks its shell to do, in order.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "common/base/strong_int.h"
#include "common/base/time.h"
#include "common/base/units.h"
#include "common/handoff/events.h"
#include "common/handoff/node_note.h"
#include "common/kv/ids.h"
#include "common/kv/span.h"
#include "common/sequence/batch.h"

namespace tandem::prefill_node {

using handoff::NodeNote;
using handoff::Send;

struct PushTicketTag {};
using PushTicket = StrongInt<PushTicketTag, std::uint64_t>;

// Run this on the engine; report LayerComputed per layer as it is ready and StepDone at the end.
// One step at a time. `batch` and all that it points to belong to the core and stay unchanged
// until StepDone or StepFailed is delivered.
struct StartStep {
  std::uint64_t step = 0;
  const sequence::Batch* batch = nullptr;
  Duration expected{0};  // zero: no step was seen yet
};

// Write one layer of these blocks, fence it, take the checksum of its tokens' bytes; then
// PushFenced, or PushFailed. A placement's pushes may be outstanding side by side.
struct Push {
  PushTicket ticket;
  handoff::PlacementKey key;
  handoff::NodeId sink;
  kv::Layer layer;
  std::int32_t first_block = 0;  // index into the placement's blocks
  std::shared_ptr<const std::vector<kv::CopySpan>> spans;
  TokenIndex first_token{0};  // of the first block
  TokenCount num_tokens{0};   // in these blocks; the last block may be partial
  ByteCount bytes{0};         // whole blocks
};

// Post nothing more of this placement; when no write of it is outstanding: PushDrained. Its tickets
// need no report any more (one that crosses this is ignored).
struct AbortPush {
  handoff::PlacementKey key;
  handoff::NodeId sink;
};

// Write a few blocks of pattern `nonce` into the sink's test region; then ProbeWritten, or
// ProbeFailed.
struct StartProbe {
  handoff::NodeId sink;
  std::uint64_t nonce = 0;
};

// The whole list of decode nodes to be connected to: dial new ones, drop others. None that is
// connected is missing.
struct DialSinks {
  std::vector<handoff::PeerInfo> sinks;
};

using Action = std::variant<Send, StartStep, Push, AbortPush, StartProbe, DialSinks, NodeNote>;
using Actions = std::vector<Action>;

}  // namespace tandem::prefill_node
