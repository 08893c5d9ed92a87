// What the three cores share of their events and actions.
//
// A NodeId names one *life* of a peer: the shell gives a peer that comes back with the same name
// and incarnation its old NodeId, and a new incarnation a new one (NodeDirectory does this). So a
// NodeId can be compared where the protocol compares incarnations.
#pragma once

#include <cstdint>

#include "common/handoff/ids.h"
#include "common/handoff/messages.h"

namespace tandem::handoff {

// How a connection ended. Only a death counts against a request that may be poison.
enum class Loss : std::uint8_t {
  kDied = 1,    // reset or end of stream: the process is gone
  kSilent = 2,  // stopped or cut off: nothing heard, closed by us
  kClosed = 3,  // an orderly end: drained, shut down, replaced by a newer connection
};

// What proves to a sink that a source writes into a reservation no more.
enum class Proof : std::uint8_t {
  kWriter = 1,    // shared memory, RDMA, loopback: Release{drained}, or the writer is gone
  kReceives = 2,  // data messages (TCP): no receive posted into the blocks is outstanding
};

// Action of every core: on the connection to `to`, in this order. Dropped by the shell when that
// connection has ended (the core will hear of the end).
struct Send {
  NodeId to;
  Message message;
};

// Numbers of the protocol; equal on all sides, so not configuration.
inline constexpr Duration kLease = std::chrono::seconds(5);
inline constexpr Duration kRenewEvery = std::chrono::seconds(1);
inline constexpr Duration kLeaseGrace =
    std::chrono::milliseconds(100);  // D adds it, P keeps off it
inline constexpr Duration kDrainBudgetMax = std::chrono::hours(24);
// After a drain's budget: for what was moved to end, writes outstanding above all.
inline constexpr Duration kDrainGrace = std::chrono::seconds(5);
inline constexpr Duration kSinkReturn = std::chrono::seconds(1);  // after HandOff, D may come back
// Between dials of a peer that is not there, doubled each time.
inline constexpr Duration kDialBackoffMin = std::chrono::milliseconds(50);
inline constexpr Duration kDialBackoffMax = std::chrono::milliseconds(500);
inline constexpr TokenCount kHeadroom{64};
inline constexpr std::uint32_t kCreditWindow = 256;  // positions a sink may send unasked
inline constexpr Placement kPlacementsMax{3};
inline constexpr std::int32_t kFruitlessAttemptsMax = 3;
// A request is given up as poison when so many nodes died holding it. After the first of them it is
// tried alone: whoever was beside a poison request, or beside others when an operator killed nodes,
// does not die with them.
inline constexpr std::int32_t kDeathsMax = 4;
inline constexpr std::int32_t kDeathsShared = 2;
// A node that seems to have died may only have been cut off: the same life is back within this
// time.
inline constexpr Duration kVerdictWait = std::chrono::seconds(1);
inline constexpr std::int32_t kPoisonProgress = 32;  // positions between the first and last death

}  // namespace tandem::handoff
