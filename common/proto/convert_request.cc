// Messages between a router and a node.
#include <memory>

#include "common/proto/convert.h"
#include "common/proto/convert_parts.h"

namespace tandem::proto {
namespace {

constexpr std::size_t kMaxSinks = 4096;
constexpr std::size_t kGranule = 16;  // tokens of one hash

handoff::TokenList Share(TokenIds tokens) {
  return std::make_shared<const TokenIds>(std::move(tokens));
}

handoff::HashList Share(std::vector<Hash128> hashes) {
  return std::make_shared<const std::vector<Hash128>>(std::move(hashes));
}

// Prompt and generated tokens of a sequence agree with the position.
Status CheckPosition(std::size_t tokens, std::int32_t prompt_tokens, std::int32_t position) {
  TANDEM_RETURN_IF_ERROR(
      CheckRange("prompt_tokens", prompt_tokens, 1, static_cast<std::int64_t>(tokens)));
  const std::int64_t generated = static_cast<std::int64_t>(tokens) - prompt_tokens;
  return CheckRange("first_position", position, generated, generated);
}

// For messages that hold a key and nothing else.
template <typename Wire, typename Struct>
Wire KeyToProto(const Struct& in) {
  Wire out;
  *out.mutable_key() = ToProto(in.key);
  return out;
}

template <typename Struct, typename Wire>
StatusOr<Struct> KeyFromProto(const Wire& in) {
  Struct out;
  TANDEM_ASSIGN_OR_RETURN(out.key, FromProto(in.key()));
  return out;
}

}  // namespace

wire::Drain ToProto(const handoff::Drain& in) {
  wire::Drain out;
  out.set_budget_ns(in.budget.count());
  return out;
}

StatusOr<handoff::Drain> FromProto(const wire::Drain& in) {
  TANDEM_ASSIGN_OR_RETURN(const Duration budget, DurationFrom("budget", in.budget_ns()));
  return handoff::Drain{.budget = budget};
}

wire::Peers ToProto(const handoff::Peers& in) {
  wire::Peers out;
  for (const handoff::PeerInfo& sink : in.sinks) {
    wire::Peer* peer = out.add_sinks();
    peer->set_name(sink.name);
    peer->set_rpc_address(sink.rpc_address);
    peer->set_incarnation(sink.incarnation.value());
  }
  return out;
}

StatusOr<handoff::Peers> FromProto(const wire::Peers& in) {
  TANDEM_RETURN_IF_ERROR(CheckSize("sinks", static_cast<std::size_t>(in.sinks_size()), kMaxSinks));
  handoff::Peers out;
  for (const wire::Peer& peer : in.sinks()) {
    handoff::PeerInfo info;
    TANDEM_ASSIGN_OR_RETURN(info.name, NameFrom("sinks.name", peer.name()));
    TANDEM_ASSIGN_OR_RETURN(info.rpc_address, NameFrom("sinks.rpc_address", peer.rpc_address()));
    info.incarnation = handoff::Incarnation(peer.incarnation());
    out.sinks.push_back(std::move(info));
  }
  return out;
}

wire::Prefill ToProto(const handoff::Prefill& in) {
  wire::Prefill out;
  *out.mutable_request() = ToProto(in.request);
  out.set_attempt(in.attempt.value());
  out.set_model_instance(ToBytes(in.model_instance));
  if (in.tokens != nullptr) {
    out.mutable_tokens()->Reserve(static_cast<int>(in.tokens->size()));
    for (const TokenId token : *in.tokens) out.add_tokens(token.value());
  }
  out.set_prompt_tokens(in.prompt_tokens.value());
  out.set_hashes(ToBytes(in.hashes));
  *out.mutable_params() = ToProto(in.params);
  for (const std::string& sink : in.ranked_sinks) out.add_ranked_sinks(sink);
  out.set_budget_ns(in.budget.count());
  out.set_first_position(in.first_position.value());
  return out;
}

StatusOr<handoff::Prefill> FromProto(const wire::Prefill& in) {
  handoff::Prefill out;
  out.request = FromProto(in.request());
  TANDEM_ASSIGN_OR_RETURN(out.attempt, AttemptFrom(in.attempt()));
  TANDEM_ASSIGN_OR_RETURN(out.model_instance, HashFrom("model_instance", in.model_instance()));
  TANDEM_ASSIGN_OR_RETURN(TokenIds tokens, TokensFrom("tokens", in.tokens()));
  TANDEM_RETURN_IF_ERROR(CheckPosition(tokens.size(), in.prompt_tokens(), in.first_position()));
  out.prompt_tokens = TokenCount(in.prompt_tokens());
  out.first_position = Position(in.first_position());
  TANDEM_ASSIGN_OR_RETURN(std::vector<Hash128> hashes,
                          HashesFrom("hashes", in.hashes(), tokens.size() / kGranule));
  out.tokens = Share(std::move(tokens));
  out.hashes = Share(std::move(hashes));
  TANDEM_ASSIGN_OR_RETURN(out.params, FromProto(in.params()));
  TANDEM_RETURN_IF_ERROR(
      CheckSize("ranked_sinks", static_cast<std::size_t>(in.ranked_sinks_size()), kMaxSinks));
  for (const std::string& name : in.ranked_sinks()) {
    TANDEM_ASSIGN_OR_RETURN(std::string sink, NameFrom("ranked_sinks", name));
    out.ranked_sinks.push_back(std::move(sink));
  }
  TANDEM_ASSIGN_OR_RETURN(out.budget, DurationFrom("budget", in.budget_ns()));
  return out;
}

wire::HandOff ToProto(const handoff::HandOff& in) {
  wire::HandOff out;
  *out.mutable_key() = ToProto(in.key);
  out.set_first_position(in.first_position.value());
  out.set_prompt_tokens(in.prompt_tokens.value());
  if (in.tokens != nullptr) {
    out.mutable_tokens()->Reserve(static_cast<int>(in.tokens->size()));
    for (const TokenId token : *in.tokens) out.add_tokens(token.value());
  }
  out.set_hashes(ToBytes(in.hashes));
  *out.mutable_params() = ToProto(in.params);
  out.set_first_logprob(in.first_logprob);
  out.set_total_bytes(in.total_bytes.value());
  out.set_total_layer_blocks(in.total_layer_blocks);
  return out;
}

StatusOr<handoff::HandOff> FromProto(const wire::HandOff& in) {
  handoff::HandOff out;
  TANDEM_ASSIGN_OR_RETURN(out.key, FromProto(in.key()));
  TANDEM_ASSIGN_OR_RETURN(TokenIds tokens, TokensFrom("tokens", in.tokens()));
  if (tokens.size() < 2) {
    return InvalidArgument("tokens has {} entries, must be the prompt and one token at least",
                           tokens.size());
  }
  // All but the last were known before.
  TANDEM_RETURN_IF_ERROR(CheckPosition(tokens.size() - 1, in.prompt_tokens(), in.first_position()));
  out.first_position = Position(in.first_position());
  out.prompt_tokens = TokenCount(in.prompt_tokens());
  TANDEM_ASSIGN_OR_RETURN(std::vector<Hash128> hashes,
                          HashesFrom("hashes", in.hashes(), tokens.size() / kGranule));
  out.tokens = Share(std::move(tokens));
  out.hashes = Share(std::move(hashes));
  TANDEM_ASSIGN_OR_RETURN(out.params, FromProto(in.params()));
  TANDEM_RETURN_IF_ERROR(CheckNotNan("first_logprob", in.first_logprob()));
  out.first_logprob = in.first_logprob();
  TANDEM_RETURN_IF_ERROR(
      CheckRange("total_bytes", in.total_bytes(), 0, std::numeric_limits<std::int64_t>::max()));
  out.total_bytes = ByteCount(in.total_bytes());
  TANDEM_RETURN_IF_ERROR(CheckRange("total_layer_blocks", in.total_layer_blocks(), 0));
  out.total_layer_blocks = in.total_layer_blocks();
  return out;
}

wire::Credit ToProto(const handoff::Credit& in) {
  auto out = KeyToProto<wire::Credit>(in);
  out.set_tokens(in.tokens);
  return out;
}

StatusOr<handoff::Credit> FromProto(const wire::Credit& in) {
  TANDEM_ASSIGN_OR_RETURN(auto out, KeyFromProto<handoff::Credit>(in));
  out.tokens = in.tokens();
  return out;
}

wire::PlacementRefused ToProto(const handoff::PlacementRefused& in) {
  auto out = KeyToProto<wire::PlacementRefused>(in);
  out.set_reason(in.reason);
  return out;
}

StatusOr<handoff::PlacementRefused> FromProto(const wire::PlacementRefused& in) {
  TANDEM_ASSIGN_OR_RETURN(auto out, KeyFromProto<handoff::PlacementRefused>(in));
  TANDEM_ASSIGN_OR_RETURN(out.reason, NameFrom("reason", in.reason(), 4096));
  return out;
}

wire::Accepted ToProto(const handoff::Accepted& in) {
  wire::Accepted out;
  *out.mutable_request() = ToProto(in.request);
  out.set_attempt(in.attempt.value());
  return out;
}

StatusOr<handoff::Accepted> FromProto(const wire::Accepted& in) {
  TANDEM_ASSIGN_OR_RETURN(const handoff::Attempt attempt, AttemptFrom(in.attempt()));
  return handoff::Accepted{.request = FromProto(in.request()), .attempt = attempt};
}

wire::Refused ToProto(const handoff::Refused& in) {
  wire::Refused out;
  *out.mutable_request() = ToProto(in.request);
  out.set_attempt(in.attempt.value());
  out.set_reason(ToProto(in.reason));
  return out;
}

StatusOr<handoff::Refused> FromProto(const wire::Refused& in) {
  TANDEM_ASSIGN_OR_RETURN(const handoff::Attempt attempt, AttemptFrom(in.attempt()));
  return handoff::Refused{
      .request = FromProto(in.request()), .attempt = attempt, .reason = FromProto(in.reason())};
}

wire::Placed ToProto(const handoff::Placed& in) {
  auto out = KeyToProto<wire::Placed>(in);
  out.set_sink(in.sink);
  return out;
}

StatusOr<handoff::Placed> FromProto(const wire::Placed& in) {
  TANDEM_ASSIGN_OR_RETURN(auto out, KeyFromProto<handoff::Placed>(in));
  TANDEM_ASSIGN_OR_RETURN(out.sink, NameFrom("sink", in.sink()));
  return out;
}

wire::FirstToken ToProto(const handoff::FirstToken& in) {
  wire::FirstToken out;
  *out.mutable_request() = ToProto(in.request);
  out.set_attempt(in.attempt.value());
  out.set_position(in.position.value());
  out.set_token(in.token.value());
  out.set_logprob(in.logprob);
  out.set_finish(ToProto(in.finish));
  *out.mutable_times() = ToProto(in.times);
  return out;
}

StatusOr<handoff::FirstToken> FromProto(const wire::FirstToken& in) {
  handoff::FirstToken out;
  out.request = FromProto(in.request());
  TANDEM_ASSIGN_OR_RETURN(out.attempt, AttemptFrom(in.attempt()));
  TANDEM_RETURN_IF_ERROR(CheckRange("position", in.position(), 0));
  out.position = Position(in.position());
  TANDEM_RETURN_IF_ERROR(CheckRange("token", in.token(), 0));
  out.token = TokenId(in.token());
  TANDEM_RETURN_IF_ERROR(CheckNotNan("logprob", in.logprob()));
  out.logprob = in.logprob();
  TANDEM_ASSIGN_OR_RETURN(out.finish, FromProto(in.finish()));
  TANDEM_ASSIGN_OR_RETURN(out.times, FromProto(in.times()));
  return out;
}

wire::Tokens ToProto(const handoff::Tokens& in) {
  auto out = KeyToProto<wire::Tokens>(in);
  out.set_first(in.first.value());
  for (const TokenId token : in.tokens) out.add_tokens(token.value());
  for (const float logprob : in.logprobs) out.add_logprobs(logprob);
  out.set_finish(ToProto(in.finish));
  return out;
}

StatusOr<handoff::Tokens> FromProto(const wire::Tokens& in) {
  TANDEM_ASSIGN_OR_RETURN(auto out, KeyFromProto<handoff::Tokens>(in));
  TANDEM_ASSIGN_OR_RETURN(out.tokens, TokensFrom("tokens", in.tokens()));
  TANDEM_RETURN_IF_ERROR(CheckRange("first", in.first(), 0,
                                    std::numeric_limits<std::int32_t>::max() - in.tokens_size()));
  out.first = Position(in.first());
  if (in.logprobs_size() != in.tokens_size()) {
    return InvalidArgument("logprobs has {} entries, must have as many as tokens: {}",
                           in.logprobs_size(), in.tokens_size());
  }
  for (const float logprob : in.logprobs()) {
    TANDEM_RETURN_IF_ERROR(CheckNotNan("logprobs", logprob));
    out.logprobs.push_back(logprob);
  }
  TANDEM_ASSIGN_OR_RETURN(out.finish, FromProto(in.finish()));
  return out;
}

wire::TransferReport ToProto(const handoff::TransferReport& in) {
  auto out = KeyToProto<wire::TransferReport>(in);
  *out.mutable_times() = ToProto(in.times);
  return out;
}

StatusOr<handoff::TransferReport> FromProto(const wire::TransferReport& in) {
  TANDEM_ASSIGN_OR_RETURN(auto out, KeyFromProto<handoff::TransferReport>(in));
  TANDEM_ASSIGN_OR_RETURN(out.times, FromProto(in.times()));
  return out;
}

wire::Failed ToProto(const handoff::Failed& in) {
  auto out = KeyToProto<wire::Failed>(in);
  out.set_reason(ToProto(in.reason));
  return out;
}

StatusOr<handoff::Failed> FromProto(const wire::Failed& in) {
  TANDEM_ASSIGN_OR_RETURN(auto out, KeyFromProto<handoff::Failed>(in));
  out.reason = FromProto(in.reason());
  return out;
}

#define TANDEM_KEY_ONLY(Name)                                                        \
  wire::Name ToProto(const handoff::Name& in) { return KeyToProto<wire::Name>(in); } \
  StatusOr<handoff::Name> FromProto(const wire::Name& in) {                          \
    return KeyFromProto<handoff::Name>(in);                                          \
  }
TANDEM_KEY_ONLY(Cancel)
TANDEM_KEY_ONLY(PlacementNoted)
TANDEM_KEY_ONLY(Cancelled)
TANDEM_KEY_ONLY(Joined)
TANDEM_KEY_ONLY(Revoke)
#undef TANDEM_KEY_ONLY

}  // namespace tandem::proto
