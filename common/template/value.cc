#include "common/template/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/utf8.h"

namespace tandem::chat_template {
namespace {

Status TooDeep() { return ResourceExhausted("values nest deeper than {}", kMaxValueDepth); }

// Counts a part into the whole that holds it.
template <typename Whole>
void Account(const Value& part, Whole& whole) {
  whole.depth = std::max(whole.depth, part.depth() + 1);
  whole.parts = std::min(whole.parts + part.parts(), kMaxValueParts + 1);
}

template <typename Whole>
Status CheckBounds(const Whole& whole) {
  if (whole.depth > kMaxValueDepth) return TooDeep();
  if (whole.parts <= kMaxValueParts) return OkStatus();
  return ResourceExhausted("a value has more than {} parts", kMaxValueParts);
}

}  // namespace

const Value* Dict::Find(std::string_view key) const {
  auto it = index.find(key);
  return it == index.end() ? nullptr : &items[it->second].second;
}

Value Value::String(MarkedText text) {
  return Value(std::make_shared<const MarkedText>(std::move(text)));
}

Value Value::Trusted(std::string_view text) {
  return String(MarkedText::Trusted(std::string(text)));
}

StatusOr<Value> Value::MakeList(std::vector<Value> items, bool is_tuple) {
  auto list = std::make_shared<List>();
  for (const Value& item : items) Account(item, *list);
  TANDEM_RETURN_IF_ERROR(CheckBounds(*list));
  list->items = std::move(items);
  list->is_tuple = is_tuple;
  return Value(std::shared_ptr<const List>(std::move(list)));
}

StatusOr<Value> Value::MakeDict(std::vector<std::pair<MarkedText, Value>> items) {
  auto dict = std::make_shared<Dict>();
  for (auto& [key, value] : items) {
    Account(value, *dict);
    auto [it, added] = dict->index.try_emplace(key.text(), dict->items.size());
    if (added) {
      dict->items.emplace_back(std::move(key), std::move(value));
    } else {
      dict->items[it->second].second = std::move(value);
    }
  }
  TANDEM_RETURN_IF_ERROR(CheckBounds(*dict));
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

namespace {

MarkedText UserText(boost::json::string_view s) {
  return MarkedText::FromUser(std::string(s.data(), s.size()));
}

StatusOr<Value> Convert(const boost::json::value& json, int depth) {
  if (depth > kMaxValueDepth) return TooDeep();
  switch (json.kind()) {
    case boost::json::kind::null:
      return Value();
    case boost::json::kind::bool_:
      return Value::Bool(json.get_bool());
    case boost::json::kind::int64:
      return Value::Int(json.get_int64());
    case boost::json::kind::uint64:
      if (json.get_uint64() >
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return InvalidArgument("the number {} does not fit 64 bits", json.get_uint64());
      }
      return Value::Int(static_cast<std::int64_t>(json.get_uint64()));
    case boost::json::kind::double_:
      return Value::Float(json.get_double());
    case boost::json::kind::string:
      return Value::String(UserText(json.get_string()));
    case boost::json::kind::array: {
      std::vector<Value> items;
      items.reserve(json.get_array().size());
      for (const auto& item : json.get_array()) {
        TANDEM_ASSIGN_OR_RETURN(Value value, Convert(item, depth + 1));
        items.push_back(std::move(value));
      }
      return Value::MakeList(std::move(items));
    }
    case boost::json::kind::object: {
      std::vector<std::pair<MarkedText, Value>> items;
      items.reserve(json.get_object().size());
      for (const auto& [key, item] : json.get_object()) {
        TANDEM_ASSIGN_OR_RETURN(Value value, Convert(item, depth + 1));
        items.emplace_back(UserText(key), std::move(value));
      }
      return Value::MakeDict(std::move(items));
    }
  }
  return Value();
}

}  // namespace

StatusOr<Value> Value::FromUserJson(const boost::json::value& json) { return Convert(json, 1); }

const MarkedText* Value::string() const {
  auto* p = std::get_if<std::shared_ptr<const MarkedText>>(&data_);
  return p == nullptr ? nullptr : p->get();
}

std::shared_ptr<const List> Value::list() const {
  auto* p = std::get_if<std::shared_ptr<const List>>(&data_);
  return p == nullptr ? nullptr : *p;
}

const Dict* Value::dict() const {
  auto* p = std::get_if<std::shared_ptr<const Dict>>(&data_);
  return p == nullptr ? nullptr : p->get();
}

Namespace* Value::name_space() const {
  auto* p = std::get_if<std::shared_ptr<Namespace>>(&data_);
  return p == nullptr ? nullptr : p->get();
}

const LoopState* Value::loop() const {
  auto* p = std::get_if<std::shared_ptr<const LoopState>>(&data_);
  return p == nullptr ? nullptr : p->get();
}

std::optional<std::int64_t> Value::integer() const {
  if (auto* b = std::get_if<bool>(&data_)) return *b ? 1 : 0;
  if (auto* i = std::get_if<std::int64_t>(&data_)) return *i;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (auto* d = std::get_if<double>(&data_)) return *d;
  if (auto i = integer()) return static_cast<double>(*i);
  return std::nullopt;
}

bool Value::Truthy() const {
  if (is_undefined() || is_none()) return false;
  if (auto n = number()) return *n != 0;
  if (const MarkedText* s = string()) return !s->empty();
  if (auto l = list()) return !l->items.empty();
  if (const Dict* d = dict()) return !d->items.empty();
  return true;
}

std::string_view Value::TypeName() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "None";
  if (is_bool()) return "bool";
  if (is_float()) return "float";
  if (integer()) return "int";
  if (is_string()) return "str";
  if (auto l = list()) return l->is_tuple ? "tuple" : "list";
  if (dict() != nullptr) return "dict";
  return name_space() != nullptr ? "namespace" : "loop";
}

std::size_t Value::parts() const {
  if (auto l = list()) return l->parts;
  if (const Dict* d = dict()) return d->parts;
  return 1;
}

int Value::depth() const {
  if (auto l = list()) return l->depth;
  if (const Dict* d = dict()) return d->depth;
  return 0;
}

bool Value::Equal(const Value& a, const Value& b) {
  if (a.integer() && b.integer()) return *a.integer() == *b.integer();
  if (a.number() && b.number()) return *a.number() == *b.number();
  if (a.data_.index() != b.data_.index()) return false;
  if (a.is_undefined() || a.is_none()) return true;
  if (const MarkedText* s = a.string()) return s->text() == b.string()->text();
  if (auto x = a.list()) {
    auto y = b.list();
    return x->is_tuple == y->is_tuple &&
           std::equal(x->items.begin(), x->items.end(), y->items.begin(), y->items.end(), Equal);
  }
  if (const Dict* x = a.dict()) {
    const Dict* y = b.dict();
    if (x->items.size() != y->items.size()) return false;
    return std::all_of(x->items.begin(), x->items.end(), [&](const auto& item) {
      const Value* other = y->Find(item.first.text());
      return other != nullptr && Equal(item.second, *other);
    });
  }
  return a.name_space() != nullptr && a.name_space() == b.name_space();
}

}  // namespace tandem::chat_template
