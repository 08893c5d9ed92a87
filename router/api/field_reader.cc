#include "router/api/field_reader.h"

#include <boost/json/value.hpp>
#include <cmath>
#include <utility>

namespace tandem::router {

namespace json = boost::json;

namespace {

std::string_view ToStd(json::string_view s) { return {s.data(), s.size()}; }
json::string_view ToJsonView(std::string_view s) { return {s.data(), s.size()}; }

}  // namespace

std::string Describe(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return value.get_bool() ? "true" : "false";
    case json::kind::int64:
      return fmt::format("{}", value.get_int64());
    case json::kind::uint64:
      return fmt::format("{}", value.get_uint64());
    case json::kind::double_:
      return fmt::format("{}", value.get_double());
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
  }
  return "unknown";
}

std::optional<std::int64_t> AsInteger(const json::value& value) {
  if (value.is_int64()) return value.get_int64();
  if (!value.is_double()) return std::nullopt;
  const double number = value.get_double();
  // 2^53: beyond it a double has lost digits that the client wrote.
  if (!(std::abs(number) <= 9007199254740992.0) || number != std::trunc(number)) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(number);
}

FieldReader::FieldReader(const json::object& object, std::string path)
    : object_(object), path_(std::move(path)) {}

const json::value* FieldReader::Take(std::string_view name) {
  auto it = object_.find(ToJsonView(name));
  if (it == object_.end()) return nullptr;
  taken_.insert(ToStd(it->key()));
  return error_ || it->value().is_null() ? nullptr : &it->value();
}

void FieldReader::Fail(ApiError error) {
  if (!error_) error_ = std::move(error);
}

void FieldReader::FailType(std::string_view name, const json::value& value,
                           std::string_view expected) {
  const std::string full = FullName(name);
  Fail(FieldError(full, "{} is {}, must be {}", full, Describe(value), expected));
}

std::optional<double> FieldReader::Number(std::string_view name, const NumberRange& range) {
  const json::value* value = Take(name);
  if (value == nullptr) return std::nullopt;
  const std::string expected =
      fmt::format("a number {} {} and at most {}", range.open_min ? "above" : "of at least",
                  range.min, range.max);
  if (!value->is_number()) {
    FailType(name, *value, expected);
    return std::nullopt;
  }
  const double number = value->to_number<double>();
  const bool inside = range.open_min ? number > range.min : number >= range.min;
  if (!std::isfinite(number) || !inside || number > range.max) {
    FailType(name, *value, expected);
    return std::nullopt;
  }
  return number;
}

std::optional<std::int64_t> FieldReader::Integer(std::string_view name, const IntegerRange& range) {
  const json::value* value = Take(name);
  if (value == nullptr) return std::nullopt;
  std::optional<std::int64_t> number = AsInteger(*value);
  if (!number || *number < range.min || *number > range.max) {
    FailType(name, *value, fmt::format("an integer from {} to {}", range.min, range.max));
    return std::nullopt;
  }
  return number;
}

std::optional<bool> FieldReader::Bool(std::string_view name) {
  const json::value* value = Take(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_bool()) return value->get_bool();
  FailType(name, *value, "true or false");
  return std::nullopt;
}

std::optional<std::string> FieldReader::String(std::string_view name) {
  const json::value* value = Take(name);
  if (value == nullptr) return std::nullopt;
  if (const json::string* text = value->if_string()) return std::string(text->data(), text->size());
  FailType(name, *value, "a string");
  return std::nullopt;
}

void FieldReader::ForEachUntaken(
    const std::function<void(std::string_view, const json::value&)>& visit) const {
  for (const auto& [key, value] : object_) {
    if (!taken_.contains(ToStd(key))) visit(ToStd(key), value);
  }
}

}  // namespace tandem::router
