#include "kv_transfer/create.h"

#include <set>
#include <utility>

#include "common/log/log.h"
#include "kv_transfer/loopback/loopback.h"
#include "kv_transfer/ucx/shm.h"
#include "kv_transfer/ucx/tcp.h"

namespace tandem::transfer {

Status SourceOptions::Validate() const {
  if (transport == Transport::kLoopback && hub == nullptr) {
    return InvalidArgument("hub: loopback needs one");
  }
  if (memory.empty()) return InvalidArgument("memory: empty");
  if (outstanding_bytes.value() < 4096) {
    return InvalidArgument("outstanding_bytes: {} is less than 4096", outstanding_bytes);
  }
  if (max_queued_writes == 0) return InvalidArgument("max_queued_writes: 0");
  if (gather_blocks == 0 || gather_blocks > 64) {
    return InvalidArgument("gather_blocks: {} is not 1 to 64", gather_blocks);
  }
  if (connect_timeout <= Duration::zero()) return InvalidArgument("connect_timeout: not positive");
  if (drain_timeout <= Duration::zero()) return InvalidArgument("drain_timeout: not positive");
  return OkStatus();
}

Status SinkOptions::Validate() const {
  if (transport == Transport::kLoopback && hub == nullptr) {
    return InvalidArgument("hub: loopback needs one");
  }
  if (incarnation == 0) return InvalidArgument("incarnation: 0");
  if (regions.empty()) return InvalidArgument("regions: none");
  std::set<std::uint32_t> ids;
  for (const RegionSpec& region : regions) {
    if (region.length.value() <= 0 || region.length.value() > std::int64_t{1} << 46) {
      return InvalidArgument("regions: region {} has {} bytes", region.id, region.length);
    }
    if (!ids.insert(region.id.value()).second) {
      return InvalidArgument("regions: region {} is named twice", region.id);
    }
  }
  if (max_links == 0) return InvalidArgument("max_links: 0");
  if (max_tickets == 0) return InvalidArgument("max_tickets: 0");
  return OkStatus();
}

StatusOr<std::unique_ptr<Source>> CreateSource(SourceOptions options, SourceEventFn on_event) {
  TANDEM_RETURN_IF_ERROR(options.Validate());
  switch (options.transport) {
    case Transport::kLoopback:
      return loopback::CreateLoopbackSource(options, std::move(on_event));
    case Transport::kUcxShm:
      return ucx::CreateShmSource(options, std::move(on_event));
    case Transport::kUcxTcp:
      return ucx::CreateTcpSource(options, std::move(on_event));
  }
  return InvalidArgument("transport: {} is none", static_cast<int>(options.transport));
}

StatusOr<std::unique_ptr<Sink>> CreateSink(SinkOptions options, SinkEventFn on_event) {
  TANDEM_RETURN_IF_ERROR(options.Validate());
  log::Info("kv.sink.create", "transport={} regions={} device={}", ToString(options.transport),
            options.regions.size(), options.net_device.empty() ? "any" : options.net_device);
  switch (options.transport) {
    case Transport::kLoopback:
      return loopback::CreateLoopbackSink(options, std::move(on_event));
    case Transport::kUcxShm:
      return ucx::CreateShmSink(options, std::move(on_event));
    case Transport::kUcxTcp:
      return ucx::CreateTcpSink(options, std::move(on_event));
  }
  return InvalidArgument("transport: {} is none", static_cast<int>(options.transport));
}

}  // namespace tandem::transfer
