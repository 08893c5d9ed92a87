// What DecodeCore asks its shell to do, in order.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "common/base/strong_int.h"
#include "common/base/time.h"
#include "common/handoff/events.h"
#include "common/handoff/node_note.h"
#include "common/kv/ids.h"
#include "common/sequence/batch.h"

namespace tandem::decode_node {

using handoff::NodeNote;
using handoff::Send;

struct VerifyTicketTag {};
using VerifyTicket = StrongInt<VerifyTicketTag, std::uint64_t>;

// Run this on the engine; then StepDone, or StepFailed. One step at a time. `batch` and all that it
// points to belong to the core and stay unchanged until then.
struct StartStep {
  std::uint64_t step = 0;
  const sequence::Batch* batch = nullptr;
  Duration expected{0};  // zero: no step was seen yet
};

// Data of this placement may arrive from `source` into these blocks, in token order; the first
// `held` of them are complete and must not be written. (Message transports accept it from now on;
// one-sided ones need nothing.)
struct Expect {
  handoff::PlacementKey key;
  handoff::NodeId source;
  std::vector<kv::BlockId> blocks;
  kv::BlockCount held{0};
};

// Drop later data of this placement; when no receive into its blocks is outstanding: SinkDrained.
// Always answered, by one-sided transports at once.
struct StopExpecting {
  handoff::PlacementKey key;
  handoff::NodeId source;
};

// Off the decode thread: wait for the bytes where the transport delivers them as messages, take
// their checksum, compare; then LayerVerified (not needed after StopExpecting of its placement).
// `blocks` are the LayerDone's.
struct Verify {
  VerifyTicket ticket;
  handoff::NodeId source;
  handoff::LayerDone done;
  std::vector<kv::BlockId> blocks;
};

// Compare the bytes of the test region with the probe's checksum; then ProbeVerified.
struct VerifyProbe {
  handoff::NodeId source;
  handoff::Probe probe;
};

using Action = std::variant<Send, StartStep, Expect, StopExpecting, Verify, VerifyProbe, NodeNote>;
using Actions = std::vector<Action>;

}  // namespace tandem::decode_node
