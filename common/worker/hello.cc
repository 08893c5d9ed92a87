#include "common/worker/hello.h"

#include <random>

#include "common/kv/layout_map.h"
#include "common/kv/span_checksum.h"

namespace tandem::worker {

handoff::Incarnation MakeIncarnation() {
  std::random_device device;
  std::uint64_t value = 0;
  while (value == 0) value = std::uint64_t{device()} << 32 | device();
  return handoff::Incarnation(value);
}

handoff::Hello MakeHello(const HelloParts& parts) {
  handoff::Hello hello;
  hello.role = parts.role;
  hello.epoch = 1;
  hello.name = parts.name;
  hello.incarnation = parts.incarnation;
  hello.model_instance = parts.model_instance;
  hello.layout = parts.layout;
  hello.numerics = parts.numerics;
  hello.checksum = kv::kSpanChecksumName;
  hello.capacity = parts.capacity;
  return hello;
}

StatusOr<handoff::RankInfo> MakeSourceRank() {
  TANDEM_ASSIGN_OR_RETURN(const transfer::ProcessIdentity self, transfer::ProcessIdentity::Self());
  handoff::RankInfo rank;
  rank.host_id = self.host_id;
  rank.pid_namespace = self.pid_namespace;
  rank.pid = self.pid;
  rank.pid_start_time = self.start_time;
  return rank;
}

handoff::RankInfo MakeSinkRank(const transfer::SinkDescriptor& sink) {
  handoff::RankInfo rank;
  rank.transport = transfer::ToString(sink.transport);
  rank.address = sink.address;
  rank.host_id = sink.process.host_id;
  rank.pid_namespace = sink.process.pid_namespace;
  rank.pid = sink.process.pid;
  rank.pid_start_time = sink.process.start_time;
  for (const transfer::RegionDescriptor& region : sink.regions) {
    rank.regions.push_back({.id = region.id.value(),
                            .length = region.length,
                            .memory = handoff::MemoryType::kHost,
                            .key = region.key});
  }
  return rank;
}

transfer::ProcessIdentity IdentityOf(const handoff::RankInfo& rank) {
  return {.host_id = rank.host_id,
          .pid_namespace = rank.pid_namespace,
          .pid = rank.pid,
          .start_time = rank.pid_start_time};
}

StatusOr<transfer::SinkDescriptor> SinkOf(const handoff::Hello& hello) {
  if (hello.ranks.size() != 1) {
    return InvalidArgument("ranks has {} entries, must be 1", hello.ranks.size());
  }
  const handoff::RankInfo& rank = hello.ranks.front();
  transfer::SinkDescriptor sink;
  TANDEM_ASSIGN_OR_RETURN(sink.transport, transfer::ParseTransport(rank.transport));
  sink.address = rank.address;
  sink.process = IdentityOf(rank);
  sink.incarnation = hello.incarnation.value();
  for (const handoff::RegionInfo& region : rank.regions) {
    if (region.memory != handoff::MemoryType::kHost) {
      return InvalidArgument("ranks.regions: memory of region {} is not host memory", region.id);
    }
    sink.regions.push_back(
        {.id = transfer::RegionId(region.id), .length = region.length, .key = region.key});
  }
  return sink;
}

std::optional<handoff::HelloRefused> CheckPair(const handoff::Hello& own,
                                               const handoff::Hello& peer) {
  if (peer.model_instance != own.model_instance) {
    return handoff::HelloRefused{
        "model_instance", fmt::format("is {}, this node has {}: start both with the same model",
                                      peer.model_instance.ToHex(), own.model_instance.ToHex())};
  }
  if (const auto map = kv::LayoutMap::Make(own.layout, peer.layout); !map.ok()) {
    return handoff::HelloRefused{"layout", std::string(FromAbsl(map.status().message()))};
  }
  if (peer.checksum != own.checksum) {
    return handoff::HelloRefused{
        "checksum", fmt::format("is '{}', this node knows '{}'", peer.checksum, own.checksum)};
  }
  if (peer.ranks.size() != 1) {
    return handoff::HelloRefused{
        "ranks", fmt::format("has {} entries, this node knows workers of 1", peer.ranks.size())};
  }
  return std::nullopt;
}

}  // namespace tandem::worker
