// Invariants. A failed check is our bug and ends the process; bad input never reaches one.
#pragma once

namespace tandem::internal {
// Prints "FILE:LINE: broken invariant: CONDITION" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);
}  // namespace tandem::internal

#define TANDEM_CHECK(condition)                        \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::tandem::internal::CheckFailed(__FILE__, __LINE__, #condition))
