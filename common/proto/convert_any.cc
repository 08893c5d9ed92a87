// Messages between any two processes.
#include <algorithm>
#include <string_view>

#include "common/proto/convert.h"
#include "common/proto/convert_parts.h"

namespace tandem::proto {
namespace {

constexpr std::size_t kMaxRanks = 256;
constexpr std::size_t kMaxRegions = 64;
constexpr std::size_t kMaxAddressBytes = 16384;  // a transport's worker address
constexpr std::size_t kMaxNodes = 4096;
constexpr std::size_t kMaxMetrics = 256;
constexpr std::size_t kMaxCacheChanges = std::size_t{1} << 16;
constexpr std::int64_t kMaxRegionBytes = std::int64_t{1} << 50;

// The router makes a Prometheus name of it.
bool IsMetricName(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || c == '_';
  });
}

wire::Region ToProto(const handoff::RegionInfo& in) {
  wire::Region out;
  out.set_id(in.id);
  out.set_length(in.length.value());
  out.set_memory(static_cast<wire::MemoryType>(in.memory));
  out.set_key(in.key);
  return out;
}

StatusOr<handoff::RegionInfo> FromProto(const wire::Region& in) {
  handoff::RegionInfo out;
  out.id = in.id();
  TANDEM_RETURN_IF_ERROR(CheckRange("region.length", in.length(), 0, kMaxRegionBytes));
  out.length = ByteCount(in.length());
  if (in.memory() != wire::MEMORY_TYPE_HOST && in.memory() != wire::MEMORY_TYPE_CUDA) {
    return InvalidArgument("region.memory is {}, must be 1 (host) or 2 (CUDA)",
                           static_cast<int>(in.memory()));
  }
  out.memory = static_cast<handoff::MemoryType>(in.memory());
  TANDEM_RETURN_IF_ERROR(CheckSize("region.key", in.key().size(), kMaxAddressBytes));
  out.key = in.key();
  return out;
}

wire::Rank ToProto(const handoff::RankInfo& in) {
  wire::Rank out;
  out.set_transport(in.transport);
  out.set_address(in.address);
  out.set_host_id(in.host_id);
  out.set_pid_namespace(in.pid_namespace);
  out.set_pid(in.pid);
  out.set_pid_start_time(in.pid_start_time);
  for (const handoff::RegionInfo& region : in.regions) *out.add_regions() = ToProto(region);
  return out;
}

StatusOr<handoff::RankInfo> FromProto(const wire::Rank& in) {
  handoff::RankInfo out;
  TANDEM_ASSIGN_OR_RETURN(out.transport, NameFrom("rank.transport", in.transport()));
  TANDEM_RETURN_IF_ERROR(CheckSize("rank.address", in.address().size(), kMaxAddressBytes));
  out.address = in.address();
  TANDEM_ASSIGN_OR_RETURN(out.host_id, NameFrom("rank.host_id", in.host_id()));
  out.pid_namespace = in.pid_namespace();
  TANDEM_RETURN_IF_ERROR(CheckRange("rank.pid", in.pid(), 0));
  out.pid = in.pid();
  out.pid_start_time = in.pid_start_time();
  TANDEM_RETURN_IF_ERROR(
      CheckSize("rank.regions", static_cast<std::size_t>(in.regions_size()), kMaxRegions));
  for (const wire::Region& region : in.regions()) {
    TANDEM_ASSIGN_OR_RETURN(handoff::RegionInfo info, FromProto(region));
    out.regions.push_back(std::move(info));
  }
  return out;
}

wire::KvLayout ToProto(const kv::KvLayout& in) {
  wire::KvLayout out;
  out.set_num_layers(in.num_layers);
  out.set_num_kv_heads(in.num_kv_heads);
  out.set_head_dim(in.head_dim);
  out.set_block_size(in.block_size);
  out.set_dtype(in.dtype == kv::KvDtype::kF32 ? wire::KV_DTYPE_F32 : wire::KV_DTYPE_BF16);
  return out;
}

StatusOr<kv::KvLayout> FromProto(const wire::KvLayout& in) {
  kv::KvLayout out{.num_layers = in.num_layers(),
                   .num_kv_heads = in.num_kv_heads(),
                   .head_dim = in.head_dim(),
                   .block_size = in.block_size(),
                   .dtype = kv::KvDtype::kF32};
  if (in.dtype() == wire::KV_DTYPE_BF16) {
    out.dtype = kv::KvDtype::kBf16;
  } else if (in.dtype() != wire::KV_DTYPE_F32) {
    return InvalidArgument("layout.dtype is {}, must be 1 (f32) or 2 (bf16)",
                           static_cast<int>(in.dtype()));
  }
  if (Status status = out.Validate(); !status.ok()) return Annotate(status, "layout");
  return out;
}

StatusOr<handoff::Capacity> FromProto(const wire::Capacity& in) {
  TANDEM_RETURN_IF_ERROR(CheckRange("capacity.num_blocks", in.num_blocks(), 0));
  TANDEM_RETURN_IF_ERROR(CheckRange("capacity.max_context", in.max_context(), 0));
  TANDEM_RETURN_IF_ERROR(CheckRange("capacity.max_sequences", in.max_sequences(), 0));
  return handoff::Capacity{.num_blocks = kv::BlockCount(in.num_blocks()),
                           .max_context = TokenCount(in.max_context()),
                           .max_sequences = in.max_sequences()};
}

}  // namespace

wire::Hello ToProto(const handoff::Hello& in) {
  wire::Hello out;
  out.set_role(static_cast<wire::Role>(in.role));
  out.set_epoch(in.epoch);
  out.set_name(in.name);
  out.set_incarnation(in.incarnation.value());
  out.set_wire_lowest(in.wire_lowest);
  out.set_wire_highest(in.wire_highest);
  out.set_features(in.features);
  out.set_model_instance(ToBytes(in.model_instance));
  if (in.role != handoff::Role::kRouter) *out.mutable_layout() = ToProto(in.layout);
  out.set_numerics(in.numerics);
  out.set_checksum(in.checksum);
  out.mutable_capacity()->set_num_blocks(in.capacity.num_blocks.value());
  out.mutable_capacity()->set_max_context(in.capacity.max_context.value());
  out.mutable_capacity()->set_max_sequences(in.capacity.max_sequences);
  out.set_rpc_address(in.rpc_address);
  for (const handoff::RankInfo& rank : in.ranks) *out.add_ranks() = ToProto(rank);
  return out;
}

StatusOr<handoff::Hello> FromProto(const wire::Hello& in) {
  handoff::Hello out;
  if (in.role() == wire::ROLE_UNSPECIFIED || !wire::Role_IsValid(in.role())) {
    return InvalidArgument("role is {}, must be 1 (router), 2 (prefill) or 3 (decode)",
                           static_cast<int>(in.role()));
  }
  out.role = static_cast<handoff::Role>(in.role());
  out.epoch = in.epoch();
  TANDEM_ASSIGN_OR_RETURN(out.name, NameFrom("name", in.name()));
  if (in.incarnation() == 0) return InvalidArgument("incarnation is 0");
  out.incarnation = handoff::Incarnation(in.incarnation());
  if (in.wire_lowest() == 0 || in.wire_lowest() > in.wire_highest()) {
    return InvalidArgument("wire versions are {}..{}, must be an ascending range from 1",
                           in.wire_lowest(), in.wire_highest());
  }
  out.wire_lowest = in.wire_lowest();
  out.wire_highest = in.wire_highest();
  out.features = in.features();
  TANDEM_ASSIGN_OR_RETURN(out.model_instance, HashFrom("model_instance", in.model_instance()));
  if (out.role != handoff::Role::kRouter) {
    TANDEM_ASSIGN_OR_RETURN(out.layout, FromProto(in.layout()));
  }
  TANDEM_ASSIGN_OR_RETURN(out.numerics, NameFrom("numerics", in.numerics()));
  TANDEM_ASSIGN_OR_RETURN(out.checksum, NameFrom("checksum", in.checksum()));
  TANDEM_ASSIGN_OR_RETURN(out.capacity, FromProto(in.capacity()));
  TANDEM_ASSIGN_OR_RETURN(out.rpc_address, NameFrom("rpc_address", in.rpc_address()));
  TANDEM_RETURN_IF_ERROR(CheckSize("ranks", static_cast<std::size_t>(in.ranks_size()), kMaxRanks));
  for (const wire::Rank& rank : in.ranks()) {
    TANDEM_ASSIGN_OR_RETURN(handoff::RankInfo info, FromProto(rank));
    out.ranks.push_back(std::move(info));
  }
  return out;
}

wire::HelloRefused ToProto(const handoff::HelloRefused& in) {
  wire::HelloRefused out;
  out.set_field(in.field);
  out.set_reason(in.reason);
  return out;
}

StatusOr<handoff::HelloRefused> FromProto(const wire::HelloRefused& in) {
  handoff::HelloRefused out;
  TANDEM_ASSIGN_OR_RETURN(out.field, NameFrom("field", in.field()));
  TANDEM_ASSIGN_OR_RETURN(out.reason, NameFrom("reason", in.reason(), 4096));
  return out;
}

wire::Heartbeat ToProto(const handoff::Heartbeat& in) {
  wire::Heartbeat out;
  out.set_queued(in.queued);
  out.set_running(in.running);
  out.set_queued_tokens(in.queued_tokens.value());
  out.set_free_blocks(in.free_blocks.value());
  out.set_quarantined_blocks(in.quarantined_blocks.value());
  out.set_draining(in.draining);
  out.set_step_number(in.step_number);
  out.set_step_running_for_ns(in.step_running_for.count());
  out.mutable_fit()->set_fixed_s(in.fit.fixed_s);
  out.mutable_fit()->set_per_token_s(in.fit.per_token_s);
  out.mutable_fit()->set_per_pair_s(in.fit.per_pair_s);
  for (const std::string& name : in.usable_sinks) out.add_usable_sinks(name);
  out.set_cached_added(ToBytes(in.cached_added));
  out.set_cached_removed(ToBytes(in.cached_removed));
  for (const handoff::NodeMetric& metric : in.metrics) {
    wire::NodeMetric* added = out.add_metrics();
    added->set_name(metric.name);
    added->set_value(metric.value);
  }
  return out;
}

StatusOr<handoff::Heartbeat> FromProto(const wire::Heartbeat& in) {
  handoff::Heartbeat out;
  out.queued = in.queued();
  out.running = in.running();
  TANDEM_RETURN_IF_ERROR(CheckRange("queued_tokens", in.queued_tokens(), 0));
  out.queued_tokens = TokenCount(in.queued_tokens());
  TANDEM_RETURN_IF_ERROR(CheckRange("free_blocks", in.free_blocks(), 0));
  out.free_blocks = kv::BlockCount(in.free_blocks());
  TANDEM_RETURN_IF_ERROR(CheckRange("quarantined_blocks", in.quarantined_blocks(), 0));
  out.quarantined_blocks = kv::BlockCount(in.quarantined_blocks());
  out.draining = in.draining();
  out.step_number = in.step_number();
  TANDEM_ASSIGN_OR_RETURN(out.step_running_for,
                          DurationFrom("step_running_for", in.step_running_for_ns()));
  out.fit = {.fixed_s = in.fit().fixed_s(),
             .per_token_s = in.fit().per_token_s(),
             .per_pair_s = in.fit().per_pair_s()};
  TANDEM_RETURN_IF_ERROR(
      CheckNotNan("fit", out.fit.fixed_s + out.fit.per_token_s + out.fit.per_pair_s));
  TANDEM_RETURN_IF_ERROR(
      CheckSize("usable_sinks", static_cast<std::size_t>(in.usable_sinks_size()), kMaxNodes));
  for (const std::string& name : in.usable_sinks()) {
    TANDEM_ASSIGN_OR_RETURN(std::string sink, NameFrom("usable_sinks", name));
    out.usable_sinks.push_back(std::move(sink));
  }
  TANDEM_ASSIGN_OR_RETURN(out.cached_added,
                          HashesFrom("cached_added", in.cached_added(), kMaxCacheChanges));
  TANDEM_ASSIGN_OR_RETURN(out.cached_removed,
                          HashesFrom("cached_removed", in.cached_removed(), kMaxCacheChanges));
  TANDEM_RETURN_IF_ERROR(
      CheckSize("metrics", static_cast<std::size_t>(in.metrics_size()), kMaxMetrics));
  for (const wire::NodeMetric& metric : in.metrics()) {
    if (!IsMetricName(metric.name())) {
      return InvalidArgument("metrics has a name that is not 1..64 of a-z and _");
    }
    out.metrics.push_back({metric.name(), metric.value()});
  }
  return out;
}

wire::Ping ToProto(const handoff::Ping& in) {
  wire::Ping out;
  out.set_nonce(in.nonce);
  return out;
}

StatusOr<handoff::Ping> FromProto(const wire::Ping& in) {
  return handoff::Ping{.nonce = in.nonce()};
}

wire::Pong ToProto(const handoff::Pong& in) {
  wire::Pong out;
  out.set_nonce(in.nonce);
  return out;
}

StatusOr<handoff::Pong> FromProto(const wire::Pong& in) {
  return handoff::Pong{.nonce = in.nonce()};
}

}  // namespace tandem::proto
