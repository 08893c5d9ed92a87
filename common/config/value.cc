#include <charconv>
#include <cmath>
#include <optional>

#include "common/config/nearest.h"
#include "common/config/program_options.h"

namespace tandem::config {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

// "1.5G" with `units`: the number and its factor. Nothing when malformed, negative or too large.
template <std::size_t N>
std::optional<std::int64_t> ParseWithUnit(const std::string& text, const Unit (&units)[N]) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, bad] = std::from_chars(text.data(), end, number);
  if (bad != std::errc() || !(number >= 0)) return std::nullopt;
  const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  for (const Unit& unit : units) {
    if (unit.name != suffix) continue;
    const double value = number * static_cast<double>(unit.factor);
    if (!(value < 9e18)) return std::nullopt;
    return static_cast<std::int64_t>(std::llround(value));
  }
  return std::nullopt;
}

constexpr std::int64_t kKi = 1024;
constexpr Unit kSizes[] = {{"", 1},
                           {"B", 1},
                           {"K", kKi},
                           {"KiB", kKi},
                           {"M", kKi* kKi},
                           {"MiB", kKi* kKi},
                           {"G", kKi* kKi* kKi},
                           {"GiB", kKi* kKi* kKi},
                           {"T", kKi* kKi* kKi* kKi},
                           {"TiB", kKi* kKi* kKi* kKi}};
constexpr Unit kTimes[] = {{"ns", 1},
                           {"us", 1'000},
                           {"ms", 1'000'000},
                           {"s", 1'000'000'000},
                           {"m", 60'000'000'000},
                           {"h", 3'600'000'000'000}};

std::string ShowBytes(ByteCount bytes) {
  const std::int64_t b = bytes.value();
  for (auto [name, factor] : {Unit{"GiB", kKi * kKi * kKi}, {"MiB", kKi * kKi}, {"KiB", kKi}}) {
    if (b >= factor && b % factor == 0) return fmt::format("{}{}", b / factor, name);
  }
  return fmt::format("{}", b);
}

std::string ShowDuration(Duration duration) {
  const std::int64_t ns = duration.count();
  for (auto [name, factor] : {Unit{"m", 60'000'000'000}, {"s", 1'000'000'000}, {"ms", 1'000'000}}) {
    if (ns >= factor && ns % factor == 0) return fmt::format("{}{}", ns / factor, name);
  }
  return fmt::format("{}ns", ns);
}

}  // namespace

Value Text(std::string* into) {
  return {[into](const std::string& text) {
            *into = text;
            return OkStatus();
          },
          *into};
}

Value List(std::vector<std::string>* into) {
  auto fresh = std::make_shared<bool>(true);  // the first value replaces the default
  return {[into, fresh](const std::string& text) {
            if (std::exchange(*fresh, false)) into->clear();
            std::size_t at = 0;
            while (at <= text.size()) {
              const std::size_t comma = std::min(text.find(',', at), text.size());
              if (comma == at) return InvalidArgument("has an empty entry in '{}'", text);
              into->push_back(text.substr(at, comma - at));
              at = comma + 1;
            }
            return OkStatus();
          },
          fmt::format("{}", fmt::join(*into, ","))};
}

Value Int(int* into, int lowest, int highest) {
  return {[into, lowest, highest](const std::string& text) {
            const char* end = text.data() + text.size();
            int value = 0;
            const auto [rest, bad] = std::from_chars(text.data(), end, value);
            if (bad != std::errc() || rest != end || value < lowest || value > highest) {
              return InvalidArgument("is '{}', must be a whole number {}..{}", text, lowest,
                                     highest);
            }
            *into = value;
            return OkStatus();
          },
          fmt::format("{}", *into)};
}

Value Number(double* into, double lowest, double highest) {
  return {[into, lowest, highest](const std::string& text) {
            const char* end = text.data() + text.size();
            double value = 0;
            const auto [rest, bad] = std::from_chars(text.data(), end, value);
            if (bad != std::errc() || rest != end || !(value >= lowest && value <= highest)) {
              return InvalidArgument("is '{}', must be a number {:g}..{:g}", text, lowest, highest);
            }
            *into = value;
            return OkStatus();
          },
          fmt::format("{:g}", *into)};
}

Value Switch(bool* into) {
  return {[into](const std::string& text) {
            if (text != "true" && text != "false") {
              return InvalidArgument("is '{}', must be true or false", text);
            }
            *into = text == "true";
            return OkStatus();
          },
          "", true};
}

Value Choice(std::string* into, std::vector<std::string> words) {
  return {[into, words](const std::string& text) {
            if (std::find(words.begin(), words.end(), text) == words.end()) {
              return InvalidArgument("is '{}', must be one of {}{}", text, fmt::join(words, ", "),
                                     DidYouMean(text, words));
            }
            *into = text;
            return OkStatus();
          },
          *into, false, words};
}

Value Bytes(ByteCount* into) {
  return {[into](const std::string& text) {
            const auto bytes = ParseWithUnit(text, kSizes);
            if (!bytes) {
              return InvalidArgument(
                  "is '{}', must be a size such as 512M or 2GiB (powers of 1024)", text);
            }
            *into = ByteCount(*bytes);
            return OkStatus();
          },
          into->value() > 0 ? ShowBytes(*into) : ""};
}

Value Seconds(Duration* into) {
  return {[into](const std::string& text) {
            const auto ns = ParseWithUnit(text, kTimes);
            if (!ns)
              return InvalidArgument("is '{}', must be a time such as 30s, 250ms or 2m", text);
            *into = Duration(*ns);
            return OkStatus();
          },
          ShowDuration(*into)};
}

}  // namespace tandem::config
