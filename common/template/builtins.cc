#include "common/template/builtins.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>

#include "common/template/operations.h"
#include "common/template/python_text.h"

namespace tandem::chat_template {
namespace {

using Result = StatusOr<Value>;

// The text of the subject or an argument; `what` is for messages.
StatusOr<const MarkedText*> Text(const std::optional<Value>& value, std::string_view what) {
  if (value && value->is_string()) return value->string();
  if (value && value->is_undefined()) return UndefinedError(*value);
  return InvalidArgument("{} needs a string, not {}", what, value ? value->TypeName() : "nothing");
}

Result Charged(MarkedText text, Budget& budget) {
  TANDEM_RETURN_IF_ERROR(budget.Bytes(text.size()));
  return Value::String(std::move(text));
}

std::optional<std::string_view> Characters(const std::optional<Value>& value) {
  if (!value || !value->is_string()) return std::nullopt;
  return value->string()->text();
}

// --- filters -------------------------------------------------------------------------------------

Result FilterTrim(Arguments a, Budget& budget) {
  TANDEM_ASSIGN_OR_RETURN(const MarkedText text, a[0]->Str());
  return Charged(Strip(text, StripSide::kBoth, Characters(a[1])), budget);
}

Result FilterToJson(Arguments a, Budget& budget) {
  std::optional<int> indent;
  if (a[2] && !a[2]->is_none()) {
    const auto wanted = a[2]->integer();
    if (!wanted || *wanted < 0 || *wanted > 64) return InvalidArgument("tojson: bad indent");
    indent = static_cast<int>(*wanted);
  }
  if (a[1] && a[1]->Truthy()) return InvalidArgument("tojson: ensure_ascii=true is not supported");
  TANDEM_RETURN_IF_ERROR(budget.Steps(a[0]->parts()));
  TANDEM_ASSIGN_OR_RETURN(MarkedText text, ToJson(*a[0], indent));
  return Charged(std::move(text), budget);
}

Result FilterLength(Arguments a, Budget& budget) {
  const Value& v = *a[0];
  std::size_t length = 0;
  if (const MarkedText* s = v.string()) {
    TANDEM_RETURN_IF_ERROR(budget.Steps(s->size() / 64));
    length = CountCharacters(s->text());
  } else if (auto list = v.list()) {
    length = list->items.size();
  } else if (const Dict* dict = v.dict()) {
    length = dict->items.size();
  } else if (!v.is_undefined()) {
    return InvalidArgument("length of a value of type {}", v.TypeName());
  }
  return Value::Int(static_cast<std::int64_t>(length));
}

Result FilterDefault(Arguments a, Budget&) {
  const bool falsy = a[2] && a[2]->Truthy() && !a[0]->Truthy();
  if (!a[0]->is_undefined() && !falsy) return *a[0];
  return a[1] ? *a[1] : Value::Trusted("");
}

Result FilterJoin(Arguments a, Budget& budget) {
  TANDEM_ASSIGN_OR_RETURN(const auto items, Iterate(*a[0], budget));
  MarkedText separator;
  if (a[1]) {
    TANDEM_ASSIGN_OR_RETURN(separator, a[1]->Str());
  }
  TANDEM_RETURN_IF_ERROR(budget.Steps(items->items.size()));
  MarkedText out;
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    if (i > 0) out += separator;
    TANDEM_ASSIGN_OR_RETURN(const MarkedText text, items->items[i].Str());
    TANDEM_RETURN_IF_ERROR(budget.Bytes(separator.size() + text.size()));
    out += text;
  }
  return Value::String(std::move(out));
}

template <LetterCase kCase>
Result FilterCase(Arguments a, Budget& budget) {
  TANDEM_ASSIGN_OR_RETURN(const MarkedText text, a[0]->Str());
  TANDEM_ASSIGN_OR_RETURN(MarkedText changed, ChangeCase(text, kCase));
  return Charged(std::move(changed), budget);
}

Result FilterString(Arguments a, Budget& budget) {
  TANDEM_RETURN_IF_ERROR(budget.Steps(a[0]->parts()));
  TANDEM_ASSIGN_OR_RETURN(MarkedText text, a[0]->Str());
  return Charged(std::move(text), budget);
}

template <bool kFirst>
Result FilterEnd(Arguments a, Budget& budget) {
  if (a[0]->dict() != nullptr && !kFirst) return InvalidArgument("last of a dict is not supported");
  TANDEM_ASSIGN_OR_RETURN(const auto items, Iterate(*a[0], budget));
  if (items->items.empty()) return Value::MakeUndefined("no item in an empty sequence");
  return kFirst ? items->items.front() : items->items.back();
}

Result FilterList(Arguments a, Budget& budget) {
  TANDEM_ASSIGN_OR_RETURN(const auto items, Iterate(*a[0], budget));
  TANDEM_RETURN_IF_ERROR(budget.Steps(items->items.size()));
  return Value::MakeList(items->items);
}

Result DictItems(const Value& value, Budget& budget) {
  const Dict* dict = value.dict();
  if (dict == nullptr) return InvalidArgument("items of a value of type {}", value.TypeName());
  TANDEM_RETURN_IF_ERROR(budget.Steps(dict->items.size() * 2));
  std::vector<Value> items;
  for (const auto& [key, item] : dict->items) {
    TANDEM_ASSIGN_OR_RETURN(Value pair, Value::MakeList({Value::String(key), item}, true));
    items.push_back(std::move(pair));
  }
  return Value::MakeList(std::move(items));
}

Result FilterItems(Arguments a, Budget& budget) {
  if (a[0]->is_undefined()) return Value::MakeList({});
  return DictItems(*a[0], budget);
}

Result FilterReplace(Arguments a, Budget& budget) {
  TANDEM_ASSIGN_OR_RETURN(const MarkedText text, a[0]->Str());
  TANDEM_ASSIGN_OR_RETURN(const MarkedText from, a[1]->Str());
  TANDEM_ASSIGN_OR_RETURN(const MarkedText to, a[2]->Str());
  std::int64_t count = -1;
  if (a[3] && !a[3]->is_none()) {
    if (!a[3]->integer()) return InvalidArgument("replace: the count is no integer");
    count = *a[3]->integer();
  }
  if (from.empty()) return InvalidArgument("replacing the empty string is not supported");
  TANDEM_RETURN_IF_ERROR(budget.Steps(text.size() / from.size()));
  TANDEM_RETURN_IF_ERROR(budget.Bytes(text.size() + text.size() / from.size() * to.size()));
  return Value::String(Replace(text, from.text(), to, count));
}

Result FilterAbs(Arguments a, Budget&) {
  if (auto i = a[0]->integer()) return *i < 0 ? Negate(*a[0]) : Value::Int(*i);
  if (auto d = a[0]->number()) return Value::Float(*d < 0 ? -*d : *d);
  return InvalidArgument("abs of a value of type {}", a[0]->TypeName());
}

Result FilterInt(Arguments a, Budget&) {
  if (auto i = a[0]->integer()) return Value::Int(*i);
  if (a[0]->is_float() && *a[0]->number() > -9e18 && *a[0]->number() < 9e18) {
    return Value::Int(static_cast<std::int64_t>(*a[0]->number()));
  }
  if (const MarkedText* s = a[0]->string()) {
    const std::string_view t = s->text();
    std::int64_t value = 0;
    const auto result = std::from_chars(t.data(), t.data() + t.size(), value);
    if (result.ec == std::errc() && result.ptr == t.data() + t.size()) return Value::Int(value);
    return InvalidArgument("int of a string that is no plain integer is not supported");
  }
  return InvalidArgument("int of a value of type {}", a[0]->TypeName());
}

// --- tests ---------------------------------------------------------------------------------------

template <bool (*kTest)(const Value&)>
Result TestValue(Arguments a, Budget&) {
  return Value::Bool(kTest(*a[0]));
}

bool IsDefined(const Value& v) { return !v.is_undefined(); }
bool IsUndefined(const Value& v) { return v.is_undefined(); }
bool IsNone(const Value& v) { return v.is_none(); }
bool IsString(const Value& v) { return v.is_string(); }
bool IsNumber(const Value& v) { return v.number().has_value(); }
bool IsInteger(const Value& v) { return v.integer() && !v.is_bool(); }
bool IsFloat(const Value& v) { return v.is_float(); }
bool IsBoolean(const Value& v) { return v.is_bool(); }
bool IsTrue(const Value& v) { return v.is_bool() && v.Truthy(); }
bool IsFalse(const Value& v) { return v.is_bool() && !v.Truthy(); }
bool IsMapping(const Value& v) { return v.dict() != nullptr; }
// Jinja's undefined has a length and can be iterated.
bool IsSequence(const Value& v) {
  return v.is_string() || v.list() != nullptr || v.dict() != nullptr || v.is_undefined();
}
bool IsIterable(const Value& v) { return IsSequence(v); }

Result TestModulo(Arguments a, Budget& budget) {
  TANDEM_ASSIGN_OR_RETURN(const Value rest, Arithmetic("%", *a[0], *a[1], budget));
  return Value::Bool(Value::Equal(rest, Value::Int(0)));
}
template <int kRest>
Result TestParity(Arguments a, Budget& budget) {
  TANDEM_ASSIGN_OR_RETURN(const Value rest, Arithmetic("%", *a[0], Value::Int(2), budget));
  return Value::Bool(Value::Equal(rest, Value::Int(kRest)));
}

template <bool kEqual>
Result TestEqual(Arguments a, Budget& budget) {
  TANDEM_RETURN_IF_ERROR(budget.Steps(std::min(a[0]->parts(), a[1]->parts())));
  return Value::Bool(Value::Equal(*a[0], *a[1]) == kEqual);
}

Result TestIn(Arguments a, Budget& budget) {
  TANDEM_ASSIGN_OR_RETURN(const bool found, Contains(*a[1], *a[0], budget));
  return Value::Bool(found);
}

// --- methods -------------------------------------------------------------------------------------

template <StripSide kSide>
Result MethodStrip(Arguments a, Budget& budget) {
  TANDEM_ASSIGN_OR_RETURN(const MarkedText* text, Text(a[0], "strip"));
  if (a[1] && !a[1]->is_none() && !a[1]->is_string()) return InvalidArgument("strip: no string");
  return Charged(Strip(*text, kSide, Characters(a[1])), budget);
}

Result MethodSplit(Arguments a, Budget& budget) {
  TANDEM_ASSIGN_OR_RETURN(const MarkedText* text, Text(a[0], "split"));
  std::optional<std::string_view> separator;
  if (a[1] && !a[1]->is_none()) {
    TANDEM_ASSIGN_OR_RETURN(const MarkedText* by, Text(a[1], "split"));
    if (by->empty()) return InvalidArgument("split: empty separator");
    separator = by->text();
  }
  std::int64_t max = -1;
  if (a[2]) {
    if (!a[2]->integer()) return InvalidArgument("split: the limit is no integer");
    max = *a[2]->integer();
  }
  TANDEM_RETURN_IF_ERROR(budget.Bytes(text->size()));
  std::vector<Value> parts;
  for (MarkedText& part : SplitText(*text, separator, max)) {
    parts.push_back(Value::String(std::move(part)));
  }
  TANDEM_RETURN_IF_ERROR(budget.Steps(parts.size()));
  return Value::MakeList(std::move(parts));
}

template <bool kStart>
Result MethodAffix(Arguments a, Budget&) {
  constexpr std::string_view kName = kStart ? "startswith" : "endswith";
  TANDEM_ASSIGN_OR_RETURN(const MarkedText* text, Text(a[0], kName));
  TANDEM_ASSIGN_OR_RETURN(const MarkedText* affix, Text(a[1], kName));
  return Value::Bool(kStart ? text->text().starts_with(affix->text())
                            : text->text().ends_with(affix->text()));
}

template <LetterCase kCase>
Result MethodCase(Arguments a, Budget& budget) {
  TANDEM_ASSIGN_OR_RETURN(const MarkedText* text, Text(a[0], "a change of case"));
  TANDEM_ASSIGN_OR_RETURN(MarkedText changed, ChangeCase(*text, kCase));
  return Charged(std::move(changed), budget);
}

Result MethodReplace(Arguments a, Budget& budget) {
  for (const auto& argument : a.first(3)) {
    TANDEM_RETURN_IF_ERROR(Text(argument, "replace").status());
  }
  return FilterReplace(a, budget);
}

Result MethodItems(Arguments a, Budget& budget) { return DictItems(*a[0], budget); }

Result MethodKeys(Arguments a, Budget& budget) {
  if (a[0]->dict() == nullptr) return InvalidArgument("keys of {}", a[0]->TypeName());
  return FilterList(a, budget);
}

Result MethodValues(Arguments a, Budget& budget) {
  const Dict* dict = a[0]->dict();
  if (dict == nullptr) return InvalidArgument("values of {}", a[0]->TypeName());
  TANDEM_RETURN_IF_ERROR(budget.Steps(dict->items.size()));
  std::vector<Value> items;
  for (const auto& [key, item] : dict->items) items.push_back(item);
  return Value::MakeList(std::move(items));
}

Result MethodGet(Arguments a, Budget&) {
  const Dict* dict = a[0]->dict();
  if (a[0]->is_undefined()) return UndefinedError(*a[0]);
  if (dict == nullptr) return InvalidArgument("get of {}", a[0]->TypeName());
  const Value* found = a[1]->is_string() ? dict->Find(a[1]->string()->text()) : nullptr;
  if (found != nullptr) return *found;
  return a[2] ? *a[2] : Value();
}

// --- tables --------------------------------------------------------------------------------------

const std::vector<Builtin>& Filters() {
  static const std::vector<Builtin> kTable = {
      {"trim", {"chars"}, 0, FilterTrim},
      {"tojson", {"ensure_ascii", "indent"}, 0, FilterToJson},
      {"length", {}, 0, FilterLength},
      {"count", {}, 0, FilterLength},
      {"default", {"default_value", "boolean"}, 0, FilterDefault},
      {"d", {"default_value", "boolean"}, 0, FilterDefault},
      {"join", {"d"}, 0, FilterJoin},
      {"upper", {}, 0, FilterCase<LetterCase::kUpper>},
      {"lower", {}, 0, FilterCase<LetterCase::kLower>},
      {"capitalize", {}, 0, FilterCase<LetterCase::kCapitalize>},
      {"string", {}, 0, FilterString},
      {"safe", {}, 0, FilterString},  // nothing is escaped
      {"first", {}, 0, FilterEnd<true>},
      {"last", {}, 0, FilterEnd<false>},
      {"list", {}, 0, FilterList},
      {"items", {}, 0, FilterItems},
      {"replace", {"old", "new", "count"}, 2, FilterReplace},
      {"abs", {}, 0, FilterAbs},
      {"int", {}, 0, FilterInt},
  };
  return kTable;
}

const std::vector<Builtin>& Tests() {
  static const std::vector<Builtin> kTable = {
      {"defined", {}, 0, TestValue<IsDefined>},
      {"undefined", {}, 0, TestValue<IsUndefined>},
      {"none", {}, 0, TestValue<IsNone>},
      {"string", {}, 0, TestValue<IsString>},
      {"number", {}, 0, TestValue<IsNumber>},
      {"integer", {}, 0, TestValue<IsInteger>},
      {"float", {}, 0, TestValue<IsFloat>},
      {"boolean", {}, 0, TestValue<IsBoolean>},
      {"true", {}, 0, TestValue<IsTrue>},
      {"false", {}, 0, TestValue<IsFalse>},
      {"mapping", {}, 0, TestValue<IsMapping>},
      {"sequence", {}, 0, TestValue<IsSequence>},
      {"iterable", {}, 0, TestValue<IsIterable>},
      {"odd", {}, 0, TestParity<1>},
      {"even", {}, 0, TestParity<0>},
      {"divisibleby", {"num"}, 1, TestModulo},
      {"eq", {"other"}, 1, TestEqual<true>},
      {"equalto", {"other"}, 1, TestEqual<true>},
      {"ne", {"other"}, 1, TestEqual<false>},
      {"in", {"seq"}, 1, TestIn},
  };
  return kTable;
}

const std::vector<Builtin>& Methods() {
  static const std::vector<Builtin> kTable = {
      {"strip", {"chars"}, 0, MethodStrip<StripSide::kBoth>},
      {"lstrip", {"chars"}, 0, MethodStrip<StripSide::kLeft>},
      {"rstrip", {"chars"}, 0, MethodStrip<StripSide::kRight>},
      {"split", {"sep", "maxsplit"}, 0, MethodSplit},
      {"startswith", {"prefix"}, 1, MethodAffix<true>},
      {"endswith", {"suffix"}, 1, MethodAffix<false>},
      {"upper", {}, 0, MethodCase<LetterCase::kUpper>},
      {"lower", {}, 0, MethodCase<LetterCase::kLower>},
      {"title", {}, 0, MethodCase<LetterCase::kTitle>},
      {"capitalize", {}, 0, MethodCase<LetterCase::kCapitalize>},
      {"replace", {"old", "new", "count"}, 2, MethodReplace},
      {"items", {}, 0, MethodItems},
      {"keys", {}, 0, MethodKeys},
      {"values", {}, 0, MethodValues},
      {"get", {"key", "default"}, 1, MethodGet},
  };
  return kTable;
}

const Builtin* Find(const std::vector<Builtin>& table, std::string_view name) {
  auto it =
      std::find_if(table.begin(), table.end(), [&](const Builtin& b) { return b.name == name; });
  return it == table.end() ? nullptr : &*it;
}

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Status Budget::Steps(std::uint64_t count) {
  if (count > steps_) return ResourceExhausted("the chat template takes too many steps");
  steps_ -= count;
  return OkStatus();
}

Status Budget::Bytes(std::uint64_t count) {
  if (count > bytes_) return ResourceExhausted("the chat template makes too much text");
  bytes_ -= count;
  return OkStatus();
}

const Builtin* FindFilter(std::string_view name) { return Find(Filters(), name); }
const Builtin* FindTest(std::string_view name) { return Find(Tests(), name); }
const Builtin* FindMethod(std::string_view name) { return Find(Methods(), name); }

bool IsDictMethod(std::string_view name) {
  return IsOneOf(name, {"clear", "copy", "fromkeys", "get", "items", "keys", "pop", "popitem",
                        "setdefault", "update", "values"});
}

bool IsPythonAttribute(const Value& value, std::string_view name) {
  if (name.starts_with("__")) return true;
  if (value.dict() != nullptr) return IsDictMethod(name);
  if (value.is_string()) {
    return FindMethod(name) != nullptr ||
           IsOneOf(name,
                   {"casefold",     "center",       "count",       "encode",    "expandtabs",
                    "find",         "format",       "format_map",  "index",     "isalnum",
                    "isalpha",      "isascii",      "isdecimal",   "isdigit",   "isidentifier",
                    "islower",      "isnumeric",    "isprintable", "isspace",   "istitle",
                    "isupper",      "join",         "ljust",       "maketrans", "partition",
                    "removeprefix", "removesuffix", "rfind",       "rindex",    "rjust",
                    "rpartition",   "rsplit",       "splitlines",  "swapcase",  "translate",
                    "zfill"});
  }
  if (value.list() != nullptr) {
    return IsOneOf(name, {"append", "clear", "copy", "count", "extend", "index", "insert", "pop",
                          "remove", "reverse", "sort"});
  }
  return value.number() &&
         IsOneOf(name, {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
                        "from_bytes", "fromhex", "hex", "imag", "is_integer", "numerator", "real",
                        "to_bytes"});
}

}  // namespace tandem::chat_template
