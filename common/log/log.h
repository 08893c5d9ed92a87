// One line per event: `kv.transfer.done request=17 bytes=8388608 us=412`. A failure is logged once,
// where it is handled. Never prompt text, never a key; nothing per token above debug.
//
//   log::Info("kv.transfer.done", "request={} bytes={}", request, bytes);
//
// Thread-safe. Lines go to stderr: time, level, event, fields.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace tandem::log {

enum class Level { kDebug, kInfo, kWarning, kError };

std::vector<std::string> LevelNames();  // "debug", "info", "warning", "error"

// What is written from now on; info at the start. Errors: InvalidArgument for another name.
Status SetLevel(std::string_view name);
bool Enabled(Level level);

void Write(Level level, std::string_view event, std::string_view fields);

#define TANDEM_LOG_FUNCTION(Name)                                                         \
  template <typename... Args>                                                             \
  void Name(std::string_view event, fmt::format_string<Args...> format, Args&&... args) { \
    if (Enabled(Level::k##Name)) {                                                        \
      Write(Level::k##Name, event, fmt::format(format, std::forward<Args>(args)...));     \
    }                                                                                     \
  }                                                                                       \
  inline void Name(std::string_view event) { Write(Level::k##Name, event, {}); }
TANDEM_LOG_FUNCTION(Debug)
TANDEM_LOG_FUNCTION(Info)
TANDEM_LOG_FUNCTION(Warning)
TANDEM_LOG_FUNCTION(Error)
#undef TANDEM_LOG_FUNCTION

}  // namespace tandem::log
