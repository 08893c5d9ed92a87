// What a node or a router tells the supervisor that watches it, over a pipe: a line of text every
// half a second, asked of the strand that decides, so that a process whose strand hangs is silent.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/base/time.h"

namespace tandem {

struct ProgressLine {
  static constexpr Duration kEvery = std::chrono::milliseconds(500);

  std::uint64_t step = 0;   // of the engine, in order; 0: none yet, or no engine
  Duration running_for{0};  // zero: no step runs
  Duration stuck_after{0};  // of this step

  // "step running_ms stuck_after_ms\n". A full pipe means that nobody reads: the line is dropped.
  // `fd` -1: nobody watches.
  void Write(int fd) const;
  // The last whole line of what was read; nothing: none is there, or it is not one.
  static std::optional<ProgressLine> Last(std::string_view text);
};

}  // namespace tandem
