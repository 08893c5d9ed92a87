// What router (R), prefill node (P) and decode node (D) tell each other, as values. The table of
// messages, who sends which when, and what must hold is in PROTOCOL.md beside this file;
// common/proto turns these into bytes and back.
//
// Messages between a source and a sink (Reserve … Revoke) know no roles: P is the source and D the
// sink today.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/hash128.h"
#include "common/base/time.h"
#include "common/base/units.h"
#include "common/handoff/ids.h"
#include "common/kv/ids.h"
#include "common/kv/layout.h"
#include "common/sequence/sampling_params.h"

namespace tandem::handoff {

using TokenList = std::shared_ptr<const TokenIds>;             // an opaque handle to pure code
using HashList = std::shared_ptr<const std::vector<Hash128>>;  // one per full granule of 16 tokens

enum class Role : std::uint8_t { kRouter = 1, kPrefill = 2, kDecode = 3 };
enum class MemoryType : std::uint8_t { kHost = 1, kCuda = 2 };

// --- any ↔ any
// ---------------------------------------------------------------------------------------------------

struct RegionInfo {
  std::uint32_t id = 0;
  ByteCount length{0};
  MemoryType memory = MemoryType::kHost;
  std::string key;  // opaque to all but kv_transfer; never logged
};

// One process of a worker, and how to write to it. A worker has one rank today.
struct RankInfo {
  std::string transport;  // "ucx-shm", "ucx-tcp", "loopback": how this sink wants its bytes
  std::string address;    // opaque: the transport's worker address
  std::string host_id;    // equal: same boot of the same host
  std::uint64_t pid_namespace = 0;
  std::int64_t pid = 0;
  std::uint64_t pid_start_time = 0;
  std::vector<RegionInfo> regions;
};

struct Capacity {
  kv::BlockCount num_blocks{0};
  TokenCount max_context{0};
  std::int32_t max_sequences = 0;
};

struct Hello {
  Role role = Role::kRouter;
  std::uint64_t epoch = 0;  // of the role
  std::string name;
  Incarnation incarnation;
  std::uint32_t wire_lowest = 1;
  std::uint32_t wire_highest = 1;
  std::uint64_t features = 0;
  Hash128 model_instance;
  kv::KvLayout layout;
  std::string numerics;  // the numerics class with its digest; never a reason to refuse
  std::string checksum;  // algorithm of LayerDone::checksum
  Capacity capacity;
  std::string rpc_address;  // host:port this node listens on; empty for a router
  std::vector<RankInfo> ranks;
};
struct HelloRefused {
  std::string field;
  std::string reason;
};

// Seconds of a step = fixed + per_token * tokens + per_pair * token pairs (prefill) or
// fixed + per_token * sequences + per_pair * KV tokens (decode). Zero: not fitted yet.
struct StepTimeFit {
  double fixed_s = 0;
  double per_token_s = 0;
  double per_pair_s = 0;
};

// A gauge or counter of a node, under its name in that node's books ("leases").
struct NodeMetric {
  std::string name;  // [a-z_]+
  std::int64_t value = 0;
  bool operator==(const NodeMetric&) const = default;
};

struct Heartbeat {
  std::uint32_t queued = 0;       // requests waiting
  std::uint32_t running = 0;      // sequences in the batch or being pushed
  TokenCount queued_tokens{0};    // prompt tokens not yet computed
  kv::BlockCount free_blocks{0};  // free or evictable
  kv::BlockCount quarantined_blocks{0};
  bool draining = false;
  std::uint64_t step_number = 0;
  Duration step_running_for{0};  // zero: no step runs
  StepTimeFit fit;
  std::vector<std::string>
      usable_sinks;                   // P: names whose probe transfer last succeeded (whole list)
  std::vector<Hash128> cached_added;  // prefix-cache changes since the last heartbeat
  std::vector<Hash128> cached_removed;
  std::vector<NodeMetric> metrics;  // to R, which shows them: nothing else is scraped
};
struct Ping {
  std::uint64_t nonce = 0;
};
struct Pong {
  std::uint64_t nonce = 0;
};

// --- router → node
// -----------------------------------------------------------------------------------------------

struct Drain {
  Duration budget{0};
};

struct PeerInfo {
  std::string name;
  std::string rpc_address;
  Incarnation incarnation;
};
struct Peers {  // R → P: the whole list of decode nodes to connect to and probe
  std::vector<PeerInfo> sinks;
};

struct Prefill {
  RequestId request;
  Attempt attempt;
  Hash128 model_instance;
  TokenList tokens;             // prompt + tokens already sent
  TokenCount prompt_tokens{0};  // of the client's prompt; tokens beyond it were generated
  HashList hashes;
  sequence::SamplingParams params;
  std::vector<std::string> ranked_sinks;  // best first
  Duration budget{0};                     // until the request's deadline; zero: none
  Position first_position{0};             // to emit
};
struct Cancel {  // everything up to and including `key`; placement kAllPlacements is the whole
                 // attempt
  PlacementKey key;
};
struct Credit {  // R → D: may send this many further positions of the stream
  PlacementKey key;
  std::uint32_t tokens = 0;
};
struct PlacementNoted {
  PlacementKey key;
};
struct PlacementRefused {
  PlacementKey key;
  std::string reason;
};

// --- node → router
// -----------------------------------------------------------------------------------------------

enum class Reason : std::uint8_t {
  kNone = 0,
  kFull = 1,           // not enough blocks now
  kNoSink = 2,         // no decode node took it
  kPreempted = 3,      // put aside under memory pressure; prefill it again
  kModelMismatch = 4,  // another model instance, or layouts that do not map
  kTooLong = 5,        // can never fit this node
  kDraining = 6,
  kExpired = 7,   // the lease or deadline ran out
  kCorrupt = 8,   // a checksum or byte count differs
  kNoRouter = 9,  // no live connection to the request's router
  kStale = 10,
  kInternal = 11,
};
std::string_view ToString(Reason reason);

struct Accepted {
  RequestId request;
  Attempt attempt;
};
struct Refused {
  RequestId request;
  Attempt attempt;
  Reason reason = Reason::kNone;
};
struct Placed {  // only after Reserved
  PlacementKey key;
  std::string sink;
};

// Where the time of one attempt went, as the node that reports it saw it (its own clock; durations
// only).
struct PhaseTimes {
  Duration queued{0};
  Duration prefill{0};           // first step's start to the last layer's KV computed
  Duration transfer{0};          // time with a write outstanding
  Duration transfer_exposed{0};  // last layer's KV computed to Joined
  ByteCount transfer_bytes{0};
  TokenCount computed_tokens{0};  // prompt tokens that were computed here
  TokenCount cached_tokens{0};    // prompt tokens found in this node's prefix cache
  TokenCount held_tokens{0};      // prompt tokens the sink already held (not sent)
};

struct FirstToken {  // an early copy of what D will send; the only one when it ends the request
  RequestId request;
  Attempt attempt;
  Position position;
  TokenId token;
  float logprob = 0;
  sequence::FinishReason finish = sequence::FinishReason::kNone;
  PhaseTimes times;  // transfer fields are not known yet
};
struct Tokens {
  PlacementKey key;
  Position first;
  TokenIds tokens;
  std::vector<float> logprobs;                                    // as many as tokens
  sequence::FinishReason finish = sequence::FinishReason::kNone;  // of the last token
};
struct TransferReport {  // P → R, after Joined
  PlacementKey key;
  PhaseTimes times;
};
struct Failed {
  PlacementKey key;  // placement 0: before any
  Reason reason = Reason::kNone;
};
struct Cancelled {
  PlacementKey key;
};

// --- source ↔ sink
// -----------------------------------------------------------------------------------------------

struct Probe {  // bytes written to the sink's test region through the data path
  std::uint64_t nonce = 0;
  ByteCount bytes{0};
  std::uint64_t checksum = 0;
};
struct Probed {
  std::uint64_t nonce = 0;
  bool ok = false;
};

struct Reserve {  // idempotent
  PlacementKey key;
  Hash128 model_instance;
  TokenCount tokens{0};    // whose KV will be written
  TokenCount headroom{0};  // generated tokens to have room for at once
  HashList hashes;
};
struct Reserved {
  PlacementKey key;
  std::vector<kv::BlockId> blocks;  // of group 0, in token order, held ones included
  kv::BlockCount held{0};           // leading blocks whose KV the sink already has
  Duration lease{0};
};
struct ReserveRefused {
  PlacementKey key;
  Reason reason = Reason::kNone;
  kv::BlockCount free_blocks{0};
};

struct LayerDone {  // after the fence of that layer of that chunk
  PlacementKey key;
  kv::Layer first_layer;
  std::int32_t num_layers = 1;
  std::int32_t first_block = 0;  // index into Reserved::blocks
  std::int32_t num_blocks = 0;
  std::int32_t num_tokens = 0;  // tokens in these blocks
  ByteCount bytes{0};
  std::uint64_t checksum = 0;  // sum mod 2^64 over spans (group, layer, token, part, head)
};

struct HandOff {  // after the last fence and after PlacementNoted; may be repeated
  PlacementKey key;
  Position first_position{0};  // of the last of `tokens`, which P generated
  TokenCount prompt_tokens{0};
  TokenList tokens;  // prompt included; the KV of all but the last is there
  HashList hashes;
  sequence::SamplingParams params;
  float first_logprob = 0;
  ByteCount total_bytes{0};
  std::int32_t total_layer_blocks = 0;  // (layer, block) pairs written
};
struct Joined {
  PlacementKey key;
};
struct Rejected {
  PlacementKey key;
  Reason reason = Reason::kNone;
};

struct Renew {
  std::vector<PlacementKey> live;
};
struct RenewAnswer {
  std::vector<PlacementKey> gone;  // no longer Reserved
};
struct Release {  // the source will not touch this placement's blocks again
  PlacementKey key;
  bool drained = true;
};
struct Revoke {  // the sink wants the blocks back; answered by Release
  PlacementKey key;
};

using Message = std::variant<Hello, HelloRefused, Heartbeat, Ping, Pong, Drain, Peers, Prefill,
                             Cancel, Credit, PlacementNoted, PlacementRefused, Accepted, Refused,
                             Placed, FirstToken, Tokens, TransferReport, Failed, Cancelled, Probe,
                             Probed, Reserve, Reserved, ReserveRefused, LayerDone, HandOff, Joined,
                             Rejected, Renew, RenewAnswer, Release, Revoke>;

// "Reserve", for logs.
std::string_view MessageName(const Message& message);

}  // namespace tandem::handoff
