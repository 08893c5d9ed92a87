#include "common/base/status.h"

namespace tandem {

Status Annotate(const Status& status, std::string_view context) {
  if (status.ok()) return status;
  return MakeStatus(status.code(), "{}: {}", context, FromAbsl(status.message()));
}

}  // namespace tandem
