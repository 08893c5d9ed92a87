#include "common/proto/convert_parts.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tandem::proto {
namespace {

// About 31 years: now + any duration from the wire stays inside the clock's range.
constexpr std::int64_t kMaxNanoseconds = 1'000'000'000'000'000'000;

}  // namespace

wire::RequestId ToProto(const handoff::RequestId& in) {
  wire::RequestId out;
  out.set_router(in.router.value());
  out.set_number(in.number);
  return out;
}

wire::PlacementKey ToProto(const handoff::PlacementKey& in) {
  wire::PlacementKey out;
  *out.mutable_request() = ToProto(in.request);
  out.set_attempt(in.attempt.value());
  out.set_placement(in.placement.value());
  return out;
}

wire::SamplingParams ToProto(const sequence::SamplingParams& in) {
  wire::SamplingParams out;
  out.set_temperature(in.temperature);
  out.set_top_k(in.top_k);
  out.set_top_p(in.top_p);
  out.set_min_p(in.min_p);
  out.set_seed(in.seed);
  out.set_max_tokens(in.max_tokens.value());
  for (const TokenId id : in.stop_token_ids) out.add_stop_token_ids(id.value());
  return out;
}

wire::PhaseTimes ToProto(const handoff::PhaseTimes& in) {
  wire::PhaseTimes out;
  out.set_queued_ns(in.queued.count());
  out.set_prefill_ns(in.prefill.count());
  out.set_transfer_ns(in.transfer.count());
  out.set_transfer_exposed_ns(in.transfer_exposed.count());
  out.set_transfer_bytes(in.transfer_bytes.value());
  out.set_computed_tokens(in.computed_tokens.value());
  out.set_cached_tokens(in.cached_tokens.value());
  out.set_held_tokens(in.held_tokens.value());
  return out;
}

wire::Reason ToProto(handoff::Reason in) { return static_cast<wire::Reason>(in); }

wire::FinishReason ToProto(sequence::FinishReason in) {
  return static_cast<wire::FinishReason>(in);
}

std::string ToBytes(const Hash128& hash) {
  return std::string(reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size());
}

std::string ToBytes(const std::vector<Hash128>& hashes) {
  std::string out;
  out.reserve(hashes.size() * sizeof(Hash128));
  for (const Hash128& hash : hashes) out += ToBytes(hash);
  return out;
}

std::string ToBytes(const handoff::HashList& hashes) {
  return hashes == nullptr ? std::string() : ToBytes(*hashes);
}

handoff::RequestId FromProto(const wire::RequestId& in) {
  return {.router = handoff::Incarnation(in.router()), .number = in.number()};
}

StatusOr<handoff::Attempt> AttemptFrom(std::uint32_t in) {
  if (in == 0) return InvalidArgument("attempt is 0, must be 1 or more");
  return handoff::Attempt(in);
}

StatusOr<handoff::PlacementKey> FromProto(const wire::PlacementKey& in) {
  TANDEM_ASSIGN_OR_RETURN(const handoff::Attempt attempt, AttemptFrom(in.attempt()));
  return handoff::PlacementKey{.request = FromProto(in.request()),
                               .attempt = attempt,
                               .placement = handoff::Placement(in.placement())};
}

StatusOr<sequence::SamplingParams> FromProto(const wire::SamplingParams& in) {
  sequence::SamplingParams out;
  out.temperature = in.temperature();
  out.top_k = in.top_k();
  out.top_p = in.top_p();
  out.min_p = in.min_p();
  out.seed = in.seed();
  out.max_tokens = TokenCount(in.max_tokens());
  TANDEM_ASSIGN_OR_RETURN(out.stop_token_ids, TokensFrom("stop_token_ids", in.stop_token_ids()));
  if (Status status = out.Validate(); !status.ok()) return Annotate(status, "params");
  return out;
}

StatusOr<handoff::PhaseTimes> FromProto(const wire::PhaseTimes& in) {
  handoff::PhaseTimes out;
  TANDEM_ASSIGN_OR_RETURN(out.queued, DurationFrom("queued", in.queued_ns()));
  TANDEM_ASSIGN_OR_RETURN(out.prefill, DurationFrom("prefill", in.prefill_ns()));
  TANDEM_ASSIGN_OR_RETURN(out.transfer, DurationFrom("transfer", in.transfer_ns()));
  TANDEM_ASSIGN_OR_RETURN(out.transfer_exposed,
                          DurationFrom("transfer_exposed", in.transfer_exposed_ns()));
  TANDEM_RETURN_IF_ERROR(CheckRange("transfer_bytes", in.transfer_bytes(), 0,
                                    std::numeric_limits<std::int64_t>::max()));
  out.transfer_bytes = ByteCount(in.transfer_bytes());
  TANDEM_RETURN_IF_ERROR(CheckRange("computed_tokens", in.computed_tokens(), 0));
  out.computed_tokens = TokenCount(in.computed_tokens());
  TANDEM_RETURN_IF_ERROR(CheckRange("cached_tokens", in.cached_tokens(), 0));
  out.cached_tokens = TokenCount(in.cached_tokens());
  TANDEM_RETURN_IF_ERROR(CheckRange("held_tokens", in.held_tokens(), 0));
  out.held_tokens = TokenCount(in.held_tokens());
  return out;
}

handoff::Reason FromProto(wire::Reason in) {
  return wire::Reason_IsValid(in) ? static_cast<handoff::Reason>(in) : handoff::Reason::kInternal;
}

StatusOr<sequence::FinishReason> FromProto(wire::FinishReason in) {
  if (!wire::FinishReason_IsValid(in)) {
    return InvalidArgument("finish is {}, must be 0 (none), 1 (stop) or 2 (length)",
                           static_cast<int>(in));
  }
  return static_cast<sequence::FinishReason>(in);
}

StatusOr<Hash128> HashFrom(std::string_view field, std::string_view bytes) {
  Hash128 out;
  if (bytes.size() != out.bytes.size()) {
    return InvalidArgument("{} is {} bytes, must be {}", field, bytes.size(), out.bytes.size());
  }
  std::memcpy(out.bytes.data(), bytes.data(), bytes.size());
  return out;
}

StatusOr<std::vector<Hash128>> HashesFrom(std::string_view field, std::string_view bytes,
                                          std::size_t max) {
  if (bytes.size() % sizeof(Hash128) != 0) {
    return InvalidArgument("{} is {} bytes, must be a multiple of {}", field, bytes.size(),
                           sizeof(Hash128));
  }
  TANDEM_RETURN_IF_ERROR(CheckSize(field, bytes.size() / sizeof(Hash128), max));
  std::vector<Hash128> out(bytes.size() / sizeof(Hash128));
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::memcpy(out[i].bytes.data(), bytes.data() + i * sizeof(Hash128), sizeof(Hash128));
  }
  return out;
}

StatusOr<Duration> DurationFrom(std::string_view field, std::int64_t nanoseconds) {
  TANDEM_RETURN_IF_ERROR(CheckRange(field, nanoseconds, 0, kMaxNanoseconds));
  return Duration(nanoseconds);
}

StatusOr<std::string> NameFrom(std::string_view field, const std::string& text,
                               std::size_t max_bytes) {
  TANDEM_RETURN_IF_ERROR(CheckSize(field, text.size(), max_bytes));
  const bool printable =
      std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (!printable) return InvalidArgument("{} has a control character", field);
  return text;
}

Status CheckRange(std::string_view field, std::int64_t value, std::int64_t lowest,
                  std::int64_t highest) {
  if (value >= lowest && value <= highest) return OkStatus();
  return InvalidArgument("{} is {}, must be {}..{}", field, value, lowest, highest);
}

Status CheckSize(std::string_view field, std::size_t size, std::size_t max) {
  if (size <= max) return OkStatus();
  return InvalidArgument("{} has {} entries or bytes, the limit is {}", field, size, max);
}

Status CheckNotNan(std::string_view field, double value) {
  return std::isnan(value) ? InvalidArgument("{} is not a number", field) : OkStatus();
}

}  // namespace tandem::proto
