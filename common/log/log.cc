#include "common/log/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>

namespace tandem::log {
namespace {

constexpr std::array<std::pair<std::string_view, spdlog::level::level_enum>, 4> kLevels = {{
    {"debug", spdlog::level::debug},
    {"info", spdlog::level::info},
    {"warning", spdlog::level::warn},
    {"error", spdlog::level::err},
}};

spdlog::level::level_enum Of(Level level) {
  return kLevels[static_cast<std::size_t>(level)].second;
}

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("tandem",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%fZ %l %v", spdlog::pattern_time_type::utc);
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *logger;
}

}  // namespace

std::vector<std::string> LevelNames() {
  std::vector<std::string> names;
  for (const auto& [name, level] : kLevels) names.emplace_back(name);
  return names;
}

Status SetLevel(std::string_view name) {
  for (const auto& [known, level] : kLevels) {
    if (known == name) {
      Logger().set_level(level);
      return OkStatus();
    }
  }
  return InvalidArgument("log level '{}' is not one of debug, info, warning, error", name);
}

bool Enabled(Level level) { return Logger().should_log(Of(level)); }

void Write(Level level, std::string_view event, std::string_view fields) {
  if (fields.empty()) {
    Logger().log(Of(level), "{}", event);
  } else {
    Logger().log(Of(level), "{} {}", event, fields);
  }
}

}  // namespace tandem::log
