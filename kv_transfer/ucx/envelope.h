// Wraps the bytes that UCX will parse without checking them (worker addresses, remote keys), so
// that what was cut, altered, or made by another version or incarnation is refused before.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "kv_transfer/transfer.h"

namespace tandem::transfer::ucx {

struct Envelope {
  std::uint64_t incarnation = 0;
  std::uint64_t base = 0;    // keys: where the region begins in the sink's address space
  std::uint64_t length = 0;  // keys: of the region
  std::string payload;

  std::string Seal() const;
  // Errors: InvalidArgument (not one); FailedPrecondition (made with another version of UCX).
  static StatusOr<Envelope> Open(std::string_view bytes);
};

// The envelope of a region's key, of that incarnation and the region's length.
// Errors: as Open; FailedPrecondition when it is another's.
StatusOr<Envelope> OpenKey(const RegionDescriptor& region, std::uint64_t incarnation);

}  // namespace tandem::transfer::ucx
