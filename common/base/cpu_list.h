// Which CPUs threads may run on: lists as taskset writes them ("0-3,8"), and pinning.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem {

using CpuList = std::vector<int>;  // CPU numbers in the order given

// "0-3,8" → {0, 1, 2, 3, 8}. Errors: InvalidArgument naming the part that is wrong: no number, a
// range that ends before it begins, a CPU named twice, a number over 4095; also an empty text.
StatusOr<CpuList> ParseCpuList(std::string_view text);
// {0, 1, 2, 3, 8} → "0-3,8".
std::string FormatCpuList(const CpuList& cpus);

// Those on which the calling thread may run, ascending. Errors: Unavailable.
StatusOr<CpuList> AllowedCpus();

// Errors: InvalidArgument naming the first of `cpus` on which the calling thread may not run, and
// those on which it may.
Status CheckAllowed(const CpuList& cpus);

// For `threads` threads (0: one a CPU) that fill `allowed`, one each: all of it. Empty where they
// are fewer or more, for then the system knows better which CPU has time.
CpuList OneForEachThread(const CpuList& allowed, int threads);

// Binds the calling thread to these CPUs; threads that it creates inherit that. Requires: not
// empty. Errors: Unavailable with the system's reason.
Status BindThisThread(const CpuList& cpus);

// Whether the system lets a thread be bound to these CPUs, as it may not in a sandbox: tried on a
// thread of its own. Requires, errors: as BindThisThread.
Status TryBinding(const CpuList& cpus);

}  // namespace tandem
