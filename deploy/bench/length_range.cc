#include "deploy/bench/length_range.h"

#include <charconv>
#include <string_view>

namespace tandem::deploy {
namespace {

bool ReadNumber(std::string_view text, std::int64_t& into) {
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), into);
  return bad == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::int64_t LengthRange::Draw(SplitMix64& random) const {
  return low + static_cast<std::int64_t>(random.Below(static_cast<std::uint64_t>(high - low + 1)));
}

std::string LengthRange::ToString() const {
  if (!given()) return "";
  return low == high ? std::to_string(low) : fmt::format("{}-{}", low, high);
}

config::Value Lengths(LengthRange* into, std::int64_t lowest, std::int64_t highest) {
  config::Value value;
  value.shown = into->ToString();
  value.parse = [into, lowest, highest](const std::string& text) -> Status {
    const std::size_t dash = text.find('-');
    const std::string_view all(text);
    LengthRange range;
    const bool read =
        ReadNumber(all.substr(0, dash), range.low) &&
        ReadNumber(dash == std::string::npos ? all : all.substr(dash + 1), range.high);
    if (!read || range.low < lowest || range.high > highest || range.low > range.high) {
      return InvalidArgument("is '{}', must be N or LOW-HIGH within {}..{}", text, lowest, highest);
    }
    *into = range;
    return OkStatus();
  };
  return value;
}

}  // namespace tandem::deploy
