// The parts that several messages share, and the checks on wire values. Inside this folder only.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/handoff/messages.h"
#include "common/proto/handoff.pb.h"
#include "common/proto/wire.h"

namespace tandem::proto {

wire::RequestId ToProto(const handoff::RequestId& in);
wire::PlacementKey ToProto(const handoff::PlacementKey& in);
wire::SamplingParams ToProto(const sequence::SamplingParams& in);
wire::PhaseTimes ToProto(const handoff::PhaseTimes& in);
wire::Reason ToProto(handoff::Reason in);
wire::FinishReason ToProto(sequence::FinishReason in);
std::string ToBytes(const Hash128& hash);
std::string ToBytes(const std::vector<Hash128>& hashes);
std::string ToBytes(const handoff::HashList& hashes);  // null: empty

handoff::RequestId FromProto(const wire::RequestId& in);
StatusOr<handoff::PlacementKey> FromProto(const wire::PlacementKey& in);
StatusOr<sequence::SamplingParams> FromProto(const wire::SamplingParams& in);
StatusOr<handoff::PhaseTimes> FromProto(const wire::PhaseTimes& in);
// A reason that came after this build is kInternal.
handoff::Reason FromProto(wire::Reason in);
StatusOr<sequence::FinishReason> FromProto(wire::FinishReason in);
StatusOr<handoff::Attempt> AttemptFrom(std::uint32_t in);

// Each error says "FIELD is VALUE, must be …".
StatusOr<Hash128> HashFrom(std::string_view field, std::string_view bytes);
StatusOr<std::vector<Hash128>> HashesFrom(std::string_view field, std::string_view bytes,
                                          std::size_t max);
StatusOr<Duration> DurationFrom(std::string_view field, std::int64_t nanoseconds);
StatusOr<std::string> NameFrom(std::string_view field, const std::string& text,
                               std::size_t max_bytes = kMaxNameBytes);
Status CheckRange(std::string_view field, std::int64_t value, std::int64_t lowest,
                  std::int64_t highest = std::numeric_limits<std::int32_t>::max());
Status CheckSize(std::string_view field, std::size_t size, std::size_t max);
Status CheckNotNan(std::string_view field, double value);

template <typename Repeated>
StatusOr<TokenIds> TokensFrom(std::string_view field, const Repeated& in) {
  TANDEM_RETURN_IF_ERROR(
      CheckSize(field, static_cast<std::size_t>(in.size()), kMaxTokensInMessage));
  TokenIds out;
  out.reserve(static_cast<std::size_t>(in.size()));
  for (const std::int32_t token : in) {
    TANDEM_RETURN_IF_ERROR(CheckRange(field, token, 0));
    out.push_back(TokenId(token));
  }
  return out;
}

}  // namespace tandem::proto
