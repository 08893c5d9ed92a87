// Errors as values: absl::Status with formatted messages. The code tells the caller what to do:
//   InvalidArgument fix the request · ResourceExhausted try another node · DeadlineExceeded ·
//   Cancelled the client left · Unavailable peer down, retry · FailedPrecondition layout or version
//   mismatch · NotFound · Internal our bug.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem {

using absl::Status;
using absl::StatusOr;
inline Status OkStatus() { return absl::OkStatus(); }

// Debian's absl::string_view does not convert to or from std::string_view.
inline absl::string_view ToAbsl(std::string_view s) { return {s.data(), s.size()}; }
inline std::string_view FromAbsl(absl::string_view s) { return {s.data(), s.size()}; }

template <typename... Args>
Status MakeStatus(absl::StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, ToAbsl(fmt::format(format, std::forward<Args>(args)...)));
}

#define TANDEM_STATUS_FACTORY(Name)                                                    \
  template <typename... Args>                                                          \
  Status Name(fmt::format_string<Args...> format, Args&&... args) {                    \
    return MakeStatus(absl::StatusCode::k##Name, format, std::forward<Args>(args)...); \
  }
TANDEM_STATUS_FACTORY(InvalidArgument)
TANDEM_STATUS_FACTORY(ResourceExhausted)
TANDEM_STATUS_FACTORY(DeadlineExceeded)
TANDEM_STATUS_FACTORY(Cancelled)
TANDEM_STATUS_FACTORY(Unavailable)
TANDEM_STATUS_FACTORY(FailedPrecondition)
TANDEM_STATUS_FACTORY(NotFound)
TANDEM_STATUS_FACTORY(Unimplemented)
TANDEM_STATUS_FACTORY(Internal)
#undef TANDEM_STATUS_FACTORY

// The same code, with `context` and a colon before the message.
Status Annotate(const Status& status, std::string_view context);

}  // namespace tandem

#define TANDEM_CONCAT_INNER(a, b) a##b
#define TANDEM_CONCAT(a, b) TANDEM_CONCAT_INNER(a, b)

#define TANDEM_RETURN_IF_ERROR(expression)         \
  do {                                             \
    ::tandem::Status tandem_status = (expression); \
    if (!tandem_status.ok()) return tandem_status; \
  } while (false)

// TANDEM_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
#define TANDEM_ASSIGN_OR_RETURN(target, expression) \
  TANDEM_ASSIGN_OR_RETURN_INNER(TANDEM_CONCAT(tandem_or_, __LINE__), target, expression)
#define TANDEM_ASSIGN_OR_RETURN_INNER(name, target, expression) \
  auto name = (expression);                                     \
  if (!name.ok()) return std::move(name).status();              \
  target = *std::move(name)
