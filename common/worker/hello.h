// What a node says of itself, and whether a source and a sink fit together.
#pragma once

#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/handoff/messages.h"
#include "common/kv/layout.h"
#include "kv_transfer/transfer.h"

namespace tandem::worker {

// Random, never 0: one life of this process.
handoff::Incarnation MakeIncarnation();

struct HelloParts {
  handoff::Role role = handoff::Role::kPrefill;
  std::string name;
  handoff::Incarnation incarnation;
  Hash128 model_instance;
  kv::KvLayout layout;
  std::string numerics;
  handoff::Capacity capacity;
};
// A Hello with no ranks.
handoff::Hello MakeHello(const HelloParts& parts);

// This process as a rank that only writes to others, or has `sink` for others to write to.
// Errors: those of ProcessIdentity::Self.
StatusOr<handoff::RankInfo> MakeSourceRank();
handoff::RankInfo MakeSinkRank(const transfer::SinkDescriptor& sink);

// The other way. Errors: InvalidArgument naming the field.
transfer::ProcessIdentity IdentityOf(const handoff::RankInfo& rank);
StatusOr<transfer::SinkDescriptor> SinkOf(const handoff::Hello& hello);

// Why `peer`, a node, cannot exchange KV with `own`; nothing when it can.
std::optional<handoff::HelloRefused> CheckPair(const handoff::Hello& own,
                                               const handoff::Hello& peer);

}  // namespace tandem::worker
