// What a template computes with: Python's none, bool, int, float, str, list, tuple and dict as far
// as JSON needs them, Jinja's undefined and namespace, and the loop object.
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/marked_text.h"
#include "common/base/status.h"

namespace tandem::chat_template {

class Value;

// Values nest at most this deep and, with all that they hold, have at most so many parts: so
// walking one is bounded, even where it holds another twice, that holds another twice, and so on.
inline constexpr int kMaxValueDepth = 64;
inline constexpr std::size_t kMaxValueParts = std::size_t{1} << 20;

struct Undefined {
  std::string what;  // for messages: "'x' is undefined"
};
struct None {};

struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  int depth = 1;
  std::size_t parts = 1;
};

// Insertion-ordered; keys are strings.
struct Dict {
  std::vector<std::pair<MarkedText, Value>> items;
  std::map<std::string, std::size_t, std::less<>> index;
  int depth = 1;
  std::size_t parts = 1;

  const Value* Find(std::string_view key) const;
};

// `namespace(…)`: the one thing that a template can change. Compared by identity.
struct Namespace {
  std::map<std::string, Value, std::less<>> attributes;
};

// One turn of a `for`.
struct LoopState {
  std::shared_ptr<const List> items;
  std::size_t index0;
};

// Cheap to copy; everything but a namespace is immutable. Not thread-safe while shared with a
// running template.
class Value {
 public:
  Value() : data_(None{}) {}
  static Value MakeUndefined(std::string what) { return Value(Undefined{std::move(what)}); }
  static Value Bool(bool b) { return Value(b); }
  static Value Int(std::int64_t i) { return Value(i); }
  static Value Float(double d) { return Value(d); }
  static Value String(MarkedText text);
  static Value Trusted(std::string_view text);
  // Errors (both): ResourceExhausted beyond kMaxValueDepth or kMaxValueParts.
  static StatusOr<Value> MakeList(std::vector<Value> items, bool is_tuple = false);
  // Later values win, at the place of the first.
  static StatusOr<Value> MakeDict(std::vector<std::pair<MarkedText, Value>> items);
  static Value Of(std::shared_ptr<Namespace> space) { return Value(std::move(space)); }
  static Value Of(std::shared_ptr<const LoopState> loop) { return Value(std::move(loop)); }
  // All strings, keys too, come from a user.
  // Errors: InvalidArgument for a number beyond 64 bits; ResourceExhausted if nested too deep.
  static StatusOr<Value> FromUserJson(const boost::json::value& json);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_string() const { return string() != nullptr; }

  // The payload, or null for another type.
  const Undefined* undefined() const { return std::get_if<Undefined>(&data_); }
  const MarkedText* string() const;
  std::shared_ptr<const List> list() const;
  const Dict* dict() const;
  Namespace* name_space() const;
  const LoopState* loop() const;
  // bool and int, as Python counts them.
  std::optional<std::int64_t> integer() const;
  // bool, int and float.
  std::optional<double> number() const;

  bool Truthy() const;
  // Python's name of the type.
  std::string_view TypeName() const;
  int depth() const;
  // Itself and all that it holds.
  std::size_t parts() const;

  // What Python's str() and repr() give.
  // Errors: InvalidArgument for a namespace or a loop.
  StatusOr<MarkedText> Str() const;
  StatusOr<MarkedText> Repr() const;

  // Python's ==.
  static bool Equal(const Value& a, const Value& b);

 private:
  using Data =
      std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const MarkedText>,
                   std::shared_ptr<const List>, std::shared_ptr<const Dict>,
                   std::shared_ptr<Namespace>, std::shared_ptr<const LoopState>>;
  template <typename T>
  explicit Value(T data) : data_(std::move(data)) {}

  Data data_;
};

// json.dumps(value, ensure_ascii=False, indent=indent). Marked as the user's if any string in it
// is. Errors: InvalidArgument for what JSON cannot say (undefined, a namespace).
StatusOr<MarkedText> ToJson(const Value& value, std::optional<int> indent);

// repr(float).
std::string FormatFloat(double d);

}  // namespace tandem::chat_template
