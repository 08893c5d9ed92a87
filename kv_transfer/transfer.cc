#include "kv_transfer/transfer.h"

namespace tandem::transfer {

std::string_view ToString(Transport transport) {
  switch (transport) {
    case Transport::kLoopback:
      return "loopback";
    case Transport::kUcxShm:
      return "ucx-shm";
    case Transport::kUcxTcp:
      return "ucx-tcp";
  }
  return "unknown";
}

StatusOr<Transport> ParseTransport(std::string_view name) {
  for (Transport t : {Transport::kLoopback, Transport::kUcxShm, Transport::kUcxTcp}) {
    if (name == ToString(t)) return t;
  }
  return InvalidArgument("no transport is called '{}': use ucx-shm, ucx-tcp or loopback",
                         name.substr(0, 64));
}

}  // namespace tandem::transfer
