#include "kv_transfer/ucx/ucx_status.h"

namespace tandem::transfer::ucx {

Status FromUcs(ucs_status_t status, std::string_view what) {
  switch (status) {
    case UCS_OK:
      return OkStatus();
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
    case UCS_ERR_EXCEEDS_LIMIT:
      return ResourceExhausted("{}: {}", what, ucs_status_string(status));
    case UCS_ERR_CANCELED:
      return Cancelled("{}: {}", what, ucs_status_string(status));
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
    case UCS_ERR_UNSUPPORTED:
      return FailedPrecondition("{}: {}", what, ucs_status_string(status));
    default:
      return Unavailable("{}: {}", what, ucs_status_string(status));
  }
}

}  // namespace tandem::transfer::ucx
