// The filters, tests and methods that templates may use. Finding none by a name is how Compile
// refuses a construct.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/template/value.h"

namespace tandem::chat_template {

// Bounds what one rendering may do.
class Budget {
 public:
  Budget(std::uint64_t steps, std::uint64_t bytes) : steps_(steps), bytes_(bytes) {}

  // Errors: ResourceExhausted.
  Status Steps(std::uint64_t count);
  // Bytes of text made, kept or not.
  Status Bytes(std::uint64_t count);

 private:
  std::uint64_t steps_;
  std::uint64_t bytes_;
};

// The subject first, then the parameters in their order; none where the call leaves one out.
using Arguments = std::span<const std::optional<Value>>;

struct Builtin {
  std::string_view name;
  std::vector<std::string_view> parameters;  // without the subject
  std::size_t required;                      // how many of them
  StatusOr<Value> (*call)(Arguments arguments, Budget& budget);
};

// Null if there is none of that name.
const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);
const Builtin* FindMethod(std::string_view name);

// An attribute that a Python object has and a template's dict or text could be mistaken for:
// reading it is refused.
bool IsPythonAttribute(const Value& value, std::string_view name);
// A method of Python's dict: `x.items` is that, not the key.
bool IsDictMethod(std::string_view name);

}  // namespace tandem::chat_template
