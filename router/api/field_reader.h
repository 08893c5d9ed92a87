// Typed reading of a JSON object's fields. `null` counts as absent. The first thing wrong is kept,
// and what follows reads as absent, so that a parser is a plain list of fields.
//
//   FieldReader fields(object);
//   request.top_p = fields.Number("top_p", {.min = 0, .max = 1, .open_min = true}).value_or(1);
//   if (fields.error()) return *fields.error();
//
// Not thread-safe. The object must outlive it.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "router/api/api_error.h"

namespace tandem::router {

struct NumberRange {
  double min = 0;
  double max = 0;
  bool open_min = false;  // `min` itself is out
};

struct IntegerRange {
  std::int64_t min = 0;
  std::int64_t max = 0;
};

class FieldReader {
 public:
  // `path` comes before the names in messages: "stream_options.".
  explicit FieldReader(const boost::json::object& object, std::string path = {});

  // Marks the field as known. Null: absent, or something was wrong before.
  const boost::json::value* Take(std::string_view name);

  std::optional<double> Number(std::string_view name, const NumberRange& range);
  // A number without a fraction; 16.0 is 16.
  std::optional<std::int64_t> Integer(std::string_view name, const IntegerRange& range);
  std::optional<bool> Bool(std::string_view name);
  std::optional<std::string> String(std::string_view name);

  // Keeps `error` unless there is one.
  void Fail(ApiError error);
  // 400: the field has the wrong type.
  void FailType(std::string_view name, const boost::json::value& value, std::string_view expected);
  const std::optional<ApiError>& error() const { return error_; }

  // Calls `visit` for each field that nobody took.
  void ForEachUntaken(
      const std::function<void(std::string_view, const boost::json::value&)>& visit) const;

  std::string FullName(std::string_view name) const { return path_ + std::string(name); }

 private:
  const boost::json::object& object_;
  std::string path_;
  std::unordered_set<std::string_view> taken_;
  std::optional<ApiError> error_;
};

// "a string", "an object": for messages. Never the value itself when it is text.
std::string Describe(const boost::json::value& value);

// The value of a number without a fraction that an int64 holds.
std::optional<std::int64_t> AsInteger(const boost::json::value& value);

}  // namespace tandem::router
