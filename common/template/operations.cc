#include "common/template/operations.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/utf8.h"
#include "common/template/python_text.h"

namespace tandem::chat_template {
namespace {

Status BadOperands(std::string_view op, const Value& a, const Value& b) {
  if (a.is_undefined()) return UndefinedError(a);
  if (b.is_undefined()) return UndefinedError(b);
  return InvalidArgument("'{}' between {} and {}", op, a.TypeName(), b.TypeName());
}

StatusOr<Value> IntegerArithmetic(std::string_view op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else {
    if (b == 0) return InvalidArgument("division by zero");
    if (op == "/") return Value::Float(static_cast<double>(a) / static_cast<double>(b));
    overflow = a == std::numeric_limits<std::int64_t>::min() && b == -1;
    if (!overflow) {  // rounds towards minus infinity
      const std::int64_t remainder = a % b;
      const bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
      result = op == "%" ? remainder + (adjust ? b : 0) : a / b - (adjust ? 1 : 0);
    }
  }
  if (overflow) return InvalidArgument("integer beyond 64 bits: {} {} {}", a, op, b);
  return Value::Int(result);
}

StatusOr<Value> FloatArithmetic(std::string_view op, double a, double b) {
  if (op == "+") return Value::Float(a + b);
  if (op == "-") return Value::Float(a - b);
  if (op == "*") return Value::Float(a * b);
  if (b == 0) return InvalidArgument("division by zero");
  if (op == "/") return Value::Float(a / b);
  return InvalidArgument("'{}' of floats is not supported", op);
}

StatusOr<Value> Repeat(const Value& value, std::int64_t count, Budget& budget) {
  count = std::max<std::int64_t>(count, 0);
  if (const MarkedText* text = value.string()) {
    if (text->empty() || count == 0) return Value::Trusted("");
    if (count > (std::int64_t{1} << 32))
      return ResourceExhausted("a text repeated {} times", count);
    TANDEM_RETURN_IF_ERROR(budget.Steps(static_cast<std::uint64_t>(count)));
    TANDEM_RETURN_IF_ERROR(budget.Bytes(static_cast<std::uint64_t>(count) * text->size()));
    MarkedText out;
    for (std::int64_t i = 0; i < count; ++i) out += *text;
    return Value::String(std::move(out));
  }
  const auto list = value.list();
  if (list->items.empty()) count = 0;
  if (count > static_cast<std::int64_t>(kMaxValueParts)) {
    return ResourceExhausted("a list repeated {} times", count);
  }
  TANDEM_RETURN_IF_ERROR(budget.Steps(static_cast<std::uint64_t>(count) * list->items.size()));
  std::vector<Value> items;
  for (std::int64_t i = 0; i < count; ++i) {
    items.insert(items.end(), list->items.begin(), list->items.end());
  }
  return Value::MakeList(std::move(items), list->is_tuple);
}

StatusOr<Value> Add(const Value& a, const Value& b, Budget& budget) {
  if (a.is_string() && b.is_string()) {
    TANDEM_RETURN_IF_ERROR(budget.Bytes(a.string()->size() + b.string()->size()));
    return Value::String(*a.string() + *b.string());
  }
  const auto x = a.list();
  const auto y = b.list();
  if (x == nullptr || y == nullptr || x->is_tuple != y->is_tuple) return BadOperands("+", a, b);
  TANDEM_RETURN_IF_ERROR(budget.Steps(x->items.size() + y->items.size()));
  std::vector<Value> items = x->items;
  items.insert(items.end(), y->items.begin(), y->items.end());
  return Value::MakeList(std::move(items), x->is_tuple);
}

StatusOr<Value> LoopAttribute(const LoopState& loop, std::string_view name) {
  const auto size = static_cast<std::int64_t>(loop.items->items.size());
  const auto index0 = static_cast<std::int64_t>(loop.index0);
  if (name == "index") return Value::Int(index0 + 1);
  if (name == "index0") return Value::Int(index0);
  if (name == "first") return Value::Bool(index0 == 0);
  if (name == "last") return Value::Bool(index0 + 1 == size);
  if (name == "length") return Value::Int(size);
  if (name == "revindex") return Value::Int(size - index0);
  if (name == "revindex0") return Value::Int(size - index0 - 1);
  if (name == "previtem") {
    return index0 > 0 ? loop.items->items[loop.index0 - 1]
                      : Value::MakeUndefined("there is no previous item");
  }
  if (name == "nextitem") {
    return index0 + 1 < size ? loop.items->items[loop.index0 + 1]
                             : Value::MakeUndefined("there is no next item");
  }
  return InvalidArgument("unsupported attribute '{}' of loop", name);
}

// A bound of a slice, as Python clamps it.
StatusOr<std::int64_t> Bound(const Value& value, std::int64_t size, std::int64_t absent,
                             bool down) {
  if (value.is_none()) return absent;
  const auto index = value.integer();
  if (!index) return InvalidArgument("a slice bound is {}, not an integer", value.TypeName());
  std::int64_t i = *index < 0 ? *index + size : *index;
  return std::clamp<std::int64_t>(i, down ? -1 : 0, down ? size - 1 : size);
}

}  // namespace

Status UndefinedError(const Value& value) {
  return InvalidArgument("{}",
                         value.undefined() != nullptr ? value.undefined()->what : "undefined");
}

StatusOr<Value> Arithmetic(std::string_view op, const Value& a, const Value& b, Budget& budget) {
  if (a.integer() && b.integer()) return IntegerArithmetic(op, *a.integer(), *b.integer());
  if (a.number() && b.number()) return FloatArithmetic(op, *a.number(), *b.number());
  if (op == "+") return Add(a, b, budget);
  if (op == "*") {
    if ((a.is_string() || a.list() != nullptr) && b.integer())
      return Repeat(a, *b.integer(), budget);
    if ((b.is_string() || b.list() != nullptr) && a.integer())
      return Repeat(b, *a.integer(), budget);
  }
  return BadOperands(op, a, b);
}

StatusOr<Value> Negate(const Value& value) {
  if (auto i = value.integer()) return IntegerArithmetic("-", 0, *i);
  if (auto d = value.number()) return Value::Float(-*d);
  if (value.is_undefined()) return UndefinedError(value);
  return InvalidArgument("'-' of {}", value.TypeName());
}

StatusOr<bool> Ordered(std::string_view op, const Value& a, const Value& b) {
  auto answer = [&](const auto& x, const auto& y) {
    if (op == "<") return x < y;
    if (op == "<=") return x <= y;
    if (op == ">") return x > y;
    return x >= y;
  };
  if (a.integer() && b.integer()) return answer(*a.integer(), *b.integer());
  if (a.number() && b.number()) return answer(*a.number(), *b.number());
  // UTF-8 orders bytes as Python orders characters.
  if (a.is_string() && b.is_string()) return answer(a.string()->text(), b.string()->text());
  return BadOperands(op, a, b);
}

StatusOr<bool> Contains(const Value& container, const Value& item, Budget& budget) {
  if (const MarkedText* text = container.string()) {
    if (!item.is_string()) return BadOperands("in", item, container);
    TANDEM_RETURN_IF_ERROR(budget.Steps(text->size() / 64));
    return text->text().find(item.string()->text()) != std::string::npos;
  }
  if (auto list = container.list()) {
    TANDEM_RETURN_IF_ERROR(budget.Steps(std::min(list->parts, list->items.size() * item.parts())));
    return std::any_of(list->items.begin(), list->items.end(),
                       [&](const Value& v) { return Value::Equal(v, item); });
  }
  if (const Dict* dict = container.dict()) {
    if (item.list() != nullptr || item.dict() != nullptr) return BadOperands("in", item, container);
    return item.is_string() && dict->Find(item.string()->text()) != nullptr;
  }
  if (container.is_undefined()) return false;
  return BadOperands("in", item, container);
}

StatusOr<Value> GetAttribute(const Value& subject, std::string_view name) {
  if (subject.is_undefined()) return UndefinedError(subject);
  if (const LoopState* loop = subject.loop()) return LoopAttribute(*loop, name);
  const Value* found = nullptr;
  if (const Dict* dict = subject.dict()) found = dict->Find(name);
  if (Namespace* space = subject.name_space()) {
    auto it = space->attributes.find(name);
    if (it != space->attributes.end()) found = &it->second;
  }
  if (found != nullptr) return *found;
  if (IsPythonAttribute(subject, name)) {
    return InvalidArgument("unsupported attribute '{}' of {}", name, subject.TypeName());
  }
  return Value::MakeUndefined(
      fmt::format("'{} object' has no attribute '{}'", subject.TypeName(), name));
}

StatusOr<Value> GetItem(const Value& subject, const Value& key, Budget& budget) {
  if (subject.is_undefined()) return UndefinedError(subject);
  if (key.is_string()) {
    if (const Dict* dict = subject.dict()) {
      if (const Value* found = dict->Find(key.string()->text())) return *found;
    }
    return GetAttribute(subject, key.string()->text());
  }
  const auto index = key.integer();
  const auto list = subject.list();
  const MarkedText* text = subject.string();
  if (index && (list != nullptr || text != nullptr)) {
    std::vector<std::size_t> offsets;
    if (text != nullptr) {
      TANDEM_RETURN_IF_ERROR(budget.Steps(text->size() / 16));
      offsets = CharacterOffsets(text->text());
    }
    const auto size =
        static_cast<std::int64_t>(list != nullptr ? list->items.size() : offsets.size() - 1);
    const std::int64_t i = *index < 0 ? *index + size : *index;
    if (i >= 0 && i < size) {
      const auto at = static_cast<std::size_t>(i);
      if (list != nullptr) return list->items[at];
      return Value::String(text->Substr(offsets[at], offsets[at + 1]));
    }
  }
  std::string shown = index ? fmt::format("{}", *index) : std::string(key.TypeName());
  return Value::MakeUndefined(
      fmt::format("{} object has no element {}", subject.TypeName(), shown));
}

StatusOr<Value> GetSlice(const Value& subject, const Value& start, const Value& stop,
                         const Value& step, Budget& budget) {
  if (subject.is_undefined()) return UndefinedError(subject);
  const auto list = subject.list();
  const MarkedText* text = subject.string();
  if (list == nullptr && text == nullptr) {
    return Value::MakeUndefined(fmt::format("{} object cannot be sliced", subject.TypeName()));
  }
  const std::int64_t by = step.is_none() ? 1 : step.integer().value_or(0);
  if (by == 0) return InvalidArgument("slice step is zero or no integer");
  std::vector<std::size_t> offsets;
  if (text != nullptr) offsets = CharacterOffsets(text->text());
  const auto size =
      static_cast<std::int64_t>(list != nullptr ? list->items.size() : offsets.size() - 1);
  TANDEM_RETURN_IF_ERROR(budget.Steps(static_cast<std::uint64_t>(size)));
  const bool down = by < 0;
  TANDEM_ASSIGN_OR_RETURN(const std::int64_t from, Bound(start, size, down ? size - 1 : 0, down));
  TANDEM_ASSIGN_OR_RETURN(const std::int64_t to, Bound(stop, size, down ? -1 : size, down));
  if (text != nullptr && by == 1) {
    TANDEM_RETURN_IF_ERROR(budget.Bytes(text->size()));
    return Value::String(text->Substr(offsets[static_cast<std::size_t>(from)],
                                      offsets[static_cast<std::size_t>(std::max(from, to))]));
  }
  std::vector<Value> items;
  MarkedText out;
  // `by` may be huge: count instead of stepping past the end.
  const std::int64_t distance = down ? from - to : to - from;
  const std::int64_t stride =
      std::min<std::int64_t>(down ? -std::max(by, -size - 1) : by, size + 1);
  for (std::int64_t passed = 0; passed < distance; passed += stride) {
    const auto at = static_cast<std::size_t>(down ? from - passed : from + passed);
    if (list != nullptr) {
      items.push_back(list->items[at]);
    } else {
      out += text->Substr(offsets[at], offsets[at + 1]);
    }
  }
  if (list != nullptr) return Value::MakeList(std::move(items), list->is_tuple);
  TANDEM_RETURN_IF_ERROR(budget.Bytes(out.size()));
  return Value::String(std::move(out));
}

StatusOr<std::shared_ptr<const List>> Iterate(const Value& value, Budget& budget) {
  if (auto list = value.list()) return list;
  auto out = std::make_shared<List>();
  if (const Dict* dict = value.dict()) {
    TANDEM_RETURN_IF_ERROR(budget.Steps(dict->items.size()));
    for (const auto& [key, item] : dict->items) out->items.push_back(Value::String(key));
  } else if (const MarkedText* text = value.string()) {
    TANDEM_RETURN_IF_ERROR(budget.Steps(text->size()));
    const std::vector<std::size_t> offsets = CharacterOffsets(text->text());
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
      out->items.push_back(Value::String(text->Substr(offsets[i], offsets[i + 1])));
    }
  } else if (!value.is_undefined()) {
    return InvalidArgument("a value of type {} cannot be iterated", value.TypeName());
  }
  return std::shared_ptr<const List>(std::move(out));
}

}  // namespace tandem::chat_template
