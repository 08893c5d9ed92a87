#include "common/base/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace tandem {

void ProgressLine::Write(int fd) const {
  if (fd < 0) return;
  const std::string line =
      fmt::format("{} {:.0f} {:.0f}\n", step, ToMillis(running_for), ToMillis(stuck_after));
  [[maybe_unused]] const ssize_t written = ::write(fd, line.data(), line.size());
}

std::optional<ProgressLine> ProgressLine::Last(std::string_view text) {
  const std::size_t end = text.rfind('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::size_t before = end == 0 ? std::string_view::npos : text.rfind('\n', end - 1);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  unsigned long long step = 0, running_ms = 0, limit_ms = 0;
  const std::string line(text.substr(begin, end - begin));
  if (std::sscanf(line.c_str(), "%llu %llu %llu", &step, &running_ms, &limit_ms) != 3) {
    return std::nullopt;
  }
  return ProgressLine{.step = step,
                      .running_for = std::chrono::milliseconds(running_ms),
                      .stuck_after = std::chrono::milliseconds(limit_ms)};
}

}  // namespace tandem
