// Shared memory that UCX allocated and registered, and the right to write it. Zero at first.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "common/base/status.h"
#include "common/base/units.h"
#include "kv_transfer/ucx/worker.h"

namespace tandem::transfer::ucx {

// First in every shared region, a page of its own before the region's bytes.
struct RegionHeader {
  static constexpr std::uint64_t kMagic = 0x6872'7672'6d64'6e74;  // "tndmrvrh"
  static constexpr std::size_t kBytes = 4096;
  std::uint64_t magic = kMagic;
  std::uint64_t incarnation = 0;
  std::uint64_t region = 0;
  std::uint64_t length = 0;  // without the header
};

class SharedMemory {
 public:
  // Errors: ResourceExhausted from UCX.
  static StatusOr<std::unique_ptr<SharedMemory>> Allocate(Worker& worker, ByteCount bytes);
  ~SharedMemory();  // Requires: no operation on it is live in this process
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  StatusOr<std::string> PackKey() const;

 private:
  SharedMemory(ucp_context_h context, ucp_mem_h memory) : context_(context), memory_(memory) {}
  ucp_context_h context_;
  ucp_mem_h memory_;
  std::span<std::byte> bytes_;
};

// Whether `bytes` fit in `directory`'s file system and in memory, a page untouched.
// Errors: ResourceExhausted with numbers and a remedy; Unavailable when it cannot be asked.
Status CheckSharedMemoryRoom(const std::string& directory, ByteCount bytes);

// `parent`/tandem-UID, made if need be: where this user's regions have their names while UCX
// allocates them. Removes what processes killed in that moment left there a minute ago or earlier.
// Errors: FailedPrecondition when it is not a directory of this user's own; Unavailable.
StatusOr<std::string> OwnDirectory(const std::string& parent);

// A sink's region, mapped into this process by its key.
class RemoteMemory {
 public:
  // Errors: FailedPrecondition when the key does not lead to shared memory.
  static StatusOr<std::unique_ptr<RemoteMemory>> Map(ucp_ep_h endpoint, const std::string& key,
                                                     std::uint64_t remote_address,
                                                     std::size_t length);
  ~RemoteMemory();  // before its endpoint
  RemoteMemory(const RemoteMemory&) = delete;
  RemoteMemory& operator=(const RemoteMemory&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit RemoteMemory(ucp_rkey_h key) : key_(key) {}
  ucp_rkey_h key_;
  std::span<std::byte> bytes_;
};

}  // namespace tandem::transfer::ucx
