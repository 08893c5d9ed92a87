// Makes the two ends of a transport.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kv_transfer/transfer.h"

namespace tandem::transfer {

namespace loopback {
class Hub;
}

// Further settings of UCX by name without "UCX_", for measurements; they win over ours.
using UcxSettings = std::vector<std::pair<std::string, std::string>>;

struct SourceOptions {
  Transport transport = Transport::kLoopback;
  // What Write::source_offset counts from. Must stay mapped until the source is destroyed.
  std::span<const std::byte> memory;
  std::string net_device;                   // kUcxTcp: interface ("eth0", "lo"); empty: all
  std::shared_ptr<loopback::Hub> hub;       // kLoopback: shared by the ends that can meet
  ByteCount outstanding_bytes{1 << 20};     // a link's bytes handed over, not yet complete
  std::size_t max_queued_writes = 1 << 18;  // a link's, after merging neighbours
  std::size_t gather_blocks = 16;           // kUcxTcp: most spans in one message
  Duration connect_timeout = std::chrono::seconds(5);
  Duration drain_timeout = std::chrono::seconds(2);  // see SourceLink::Abort
  UcxSettings ucx_settings;

  // Errors: InvalidArgument naming the field.
  Status Validate() const;
};

struct RegionSpec {
  RegionId id{0};
  ByteCount length{0};
};

struct SinkOptions {
  Transport transport = Transport::kLoopback;
  std::vector<RegionSpec> regions;
  std::uint64_t incarnation = 0;           // of this process; never 0
  std::string net_device;                  // kUcxTcp: interface to listen on; empty: all
  std::shared_ptr<loopback::Hub> hub;      // kLoopback
  std::string shm_directory = "/dev/shm";  // kUcxShm: a tmpfs
  std::size_t max_links = 1024;            // further sources are refused
  std::size_t max_tickets = 1 << 16;       // expected at a time
  UcxSettings ucx_settings;

  // Errors: InvalidArgument naming the field.
  Status Validate() const;
};

// Errors: InvalidArgument (options); Unavailable when the transport cannot be had, with its reason.
StatusOr<std::unique_ptr<Source>> CreateSource(SourceOptions options, SourceEventFn on_event);

// Also ResourceExhausted, with numbers and a remedy, when the regions do not fit in /dev/shm or in
// memory: found before a page is touched.
StatusOr<std::unique_ptr<Sink>> CreateSink(SinkOptions options, SinkEventFn on_event);

}  // namespace tandem::transfer
