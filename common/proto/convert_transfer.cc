// Messages between a source and a sink.
#include "common/proto/convert.h"
#include "common/proto/convert_parts.h"

namespace tandem::proto {
namespace {

constexpr std::int32_t kMaxLayers = 1 << 16;
constexpr std::size_t kMaxBlocks = std::size_t{1} << 20;
constexpr std::size_t kMaxKeys = std::size_t{1} << 16;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;

StatusOr<std::vector<handoff::PlacementKey>> KeysFrom(
    std::string_view field, const google::protobuf::RepeatedPtrField<wire::PlacementKey>& in) {
  TANDEM_RETURN_IF_ERROR(CheckSize(field, static_cast<std::size_t>(in.size()), kMaxKeys));
  std::vector<handoff::PlacementKey> out;
  out.reserve(static_cast<std::size_t>(in.size()));
  for (const wire::PlacementKey& key : in) {
    TANDEM_ASSIGN_OR_RETURN(const handoff::PlacementKey one, FromProto(key));
    out.push_back(one);
  }
  return out;
}

}  // namespace

wire::Probe ToProto(const handoff::Probe& in) {
  wire::Probe out;
  out.set_nonce(in.nonce);
  out.set_bytes(in.bytes.value());
  out.set_checksum(in.checksum);
  return out;
}

StatusOr<handoff::Probe> FromProto(const wire::Probe& in) {
  TANDEM_RETURN_IF_ERROR(CheckRange("bytes", in.bytes(), 0, kMaxBytes));
  return handoff::Probe{
      .nonce = in.nonce(), .bytes = ByteCount(in.bytes()), .checksum = in.checksum()};
}

wire::Probed ToProto(const handoff::Probed& in) {
  wire::Probed out;
  out.set_nonce(in.nonce);
  out.set_ok(in.ok);
  return out;
}

StatusOr<handoff::Probed> FromProto(const wire::Probed& in) {
  return handoff::Probed{.nonce = in.nonce(), .ok = in.ok()};
}

wire::Reserve ToProto(const handoff::Reserve& in) {
  wire::Reserve out;
  *out.mutable_key() = ToProto(in.key);
  out.set_model_instance(ToBytes(in.model_instance));
  out.set_tokens(in.tokens.value());
  out.set_headroom(in.headroom.value());
  out.set_hashes(ToBytes(in.hashes));
  return out;
}

StatusOr<handoff::Reserve> FromProto(const wire::Reserve& in) {
  handoff::Reserve out;
  TANDEM_ASSIGN_OR_RETURN(out.key, FromProto(in.key()));
  TANDEM_ASSIGN_OR_RETURN(out.model_instance, HashFrom("model_instance", in.model_instance()));
  TANDEM_RETURN_IF_ERROR(CheckRange("tokens", in.tokens(), 1, kMaxTokensInMessage));
  out.tokens = TokenCount(in.tokens());
  TANDEM_RETURN_IF_ERROR(CheckRange("headroom", in.headroom(), 0, kMaxTokensInMessage));
  out.headroom = TokenCount(in.headroom());
  TANDEM_ASSIGN_OR_RETURN(
      std::vector<Hash128> hashes,
      HashesFrom("hashes", in.hashes(), static_cast<std::size_t>(in.tokens()) / 16));
  out.hashes = std::make_shared<const std::vector<Hash128>>(std::move(hashes));
  return out;
}

wire::Reserved ToProto(const handoff::Reserved& in) {
  wire::Reserved out;
  *out.mutable_key() = ToProto(in.key);
  for (const kv::BlockId block : in.blocks) out.add_blocks(block.value());
  out.set_held(in.held.value());
  out.set_lease_ns(in.lease.count());
  return out;
}

StatusOr<handoff::Reserved> FromProto(const wire::Reserved& in) {
  handoff::Reserved out;
  TANDEM_ASSIGN_OR_RETURN(out.key, FromProto(in.key()));
  TANDEM_RETURN_IF_ERROR(
      CheckSize("blocks", static_cast<std::size_t>(in.blocks_size()), kMaxBlocks));
  out.blocks.reserve(static_cast<std::size_t>(in.blocks_size()));
  for (const std::int32_t block : in.blocks()) {
    TANDEM_RETURN_IF_ERROR(CheckRange("blocks", block, 0));
    out.blocks.push_back(kv::BlockId(block));
  }
  TANDEM_RETURN_IF_ERROR(CheckRange("held", in.held(), 0, in.blocks_size()));
  out.held = kv::BlockCount(in.held());
  TANDEM_ASSIGN_OR_RETURN(out.lease, DurationFrom("lease", in.lease_ns()));
  return out;
}

wire::ReserveRefused ToProto(const handoff::ReserveRefused& in) {
  wire::ReserveRefused out;
  *out.mutable_key() = ToProto(in.key);
  out.set_reason(ToProto(in.reason));
  out.set_free_blocks(in.free_blocks.value());
  return out;
}

StatusOr<handoff::ReserveRefused> FromProto(const wire::ReserveRefused& in) {
  handoff::ReserveRefused out;
  TANDEM_ASSIGN_OR_RETURN(out.key, FromProto(in.key()));
  out.reason = FromProto(in.reason());
  TANDEM_RETURN_IF_ERROR(CheckRange("free_blocks", in.free_blocks(), 0));
  out.free_blocks = kv::BlockCount(in.free_blocks());
  return out;
}

wire::LayerDone ToProto(const handoff::LayerDone& in) {
  wire::LayerDone out;
  *out.mutable_key() = ToProto(in.key);
  out.set_first_layer(in.first_layer.value());
  out.set_num_layers(in.num_layers);
  out.set_first_block(in.first_block);
  out.set_num_blocks(in.num_blocks);
  out.set_num_tokens(in.num_tokens);
  out.set_bytes(in.bytes.value());
  out.set_checksum(in.checksum);
  return out;
}

StatusOr<handoff::LayerDone> FromProto(const wire::LayerDone& in) {
  handoff::LayerDone out;
  TANDEM_ASSIGN_OR_RETURN(out.key, FromProto(in.key()));
  TANDEM_RETURN_IF_ERROR(CheckRange("first_layer", in.first_layer(), 0, kMaxLayers));
  out.first_layer = kv::Layer(in.first_layer());
  TANDEM_RETURN_IF_ERROR(CheckRange("num_layers", in.num_layers(), 1, kMaxLayers));
  out.num_layers = in.num_layers();
  TANDEM_RETURN_IF_ERROR(CheckRange("first_block", in.first_block(), 0, kMaxBlocks));
  out.first_block = in.first_block();
  TANDEM_RETURN_IF_ERROR(CheckRange("num_blocks", in.num_blocks(), 0, kMaxBlocks));
  out.num_blocks = in.num_blocks();
  TANDEM_RETURN_IF_ERROR(CheckRange("num_tokens", in.num_tokens(), 0));
  out.num_tokens = in.num_tokens();
  TANDEM_RETURN_IF_ERROR(CheckRange("bytes", in.bytes(), 0, kMaxBytes));
  out.bytes = ByteCount(in.bytes());
  out.checksum = in.checksum();
  return out;
}

wire::Rejected ToProto(const handoff::Rejected& in) {
  wire::Rejected out;
  *out.mutable_key() = ToProto(in.key);
  out.set_reason(ToProto(in.reason));
  return out;
}

StatusOr<handoff::Rejected> FromProto(const wire::Rejected& in) {
  TANDEM_ASSIGN_OR_RETURN(const handoff::PlacementKey key, FromProto(in.key()));
  return handoff::Rejected{.key = key, .reason = FromProto(in.reason())};
}

wire::Renew ToProto(const handoff::Renew& in) {
  wire::Renew out;
  for (const handoff::PlacementKey& key : in.live) *out.add_live() = ToProto(key);
  return out;
}

StatusOr<handoff::Renew> FromProto(const wire::Renew& in) {
  handoff::Renew out;
  TANDEM_ASSIGN_OR_RETURN(out.live, KeysFrom("live", in.live()));
  return out;
}

wire::RenewAnswer ToProto(const handoff::RenewAnswer& in) {
  wire::RenewAnswer out;
  for (const handoff::PlacementKey& key : in.gone) *out.add_gone() = ToProto(key);
  return out;
}

StatusOr<handoff::RenewAnswer> FromProto(const wire::RenewAnswer& in) {
  handoff::RenewAnswer out;
  TANDEM_ASSIGN_OR_RETURN(out.gone, KeysFrom("gone", in.gone()));
  return out;
}

wire::Release ToProto(const handoff::Release& in) {
  wire::Release out;
  *out.mutable_key() = ToProto(in.key);
  out.set_drained(in.drained);
  return out;
}

StatusOr<handoff::Release> FromProto(const wire::Release& in) {
  TANDEM_ASSIGN_OR_RETURN(const handoff::PlacementKey key, FromProto(in.key()));
  return handoff::Release{.key = key, .drained = in.drained()};
}

}  // namespace tandem::proto
