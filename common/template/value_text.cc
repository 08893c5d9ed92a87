// Values as text: Python's str, repr and json.dumps.
#include <fmt/format.h>
#include <utf8proc.h>

#include <cmath>

#include "common/base/json_string.h"
#include "common/base/utf8.h"
#include "common/template/value.h"

namespace tandem::chat_template {
namespace {

// str.isprintable for one character.
bool IsPrintable(char32_t code) {
  if (code == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

std::string QuotePython(std::string_view text) {
  const bool twice = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = twice ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t pos = 0; pos < text.size();) {
    const Utf8Char c = ScanUtf8(text, pos);
    const std::string_view bytes = text.substr(pos, c.length);
    pos += c.length;
    if (c.code == static_cast<char32_t>(quote) || c.code == '\\') {
      out.push_back('\\');
      out += bytes;
    } else if (c.code == '\n') {
      out += "\\n";
    } else if (c.code == '\r') {
      out += "\\r";
    } else if (c.code == '\t') {
      out += "\\t";
    } else if (IsPrintable(c.code)) {
      out += bytes;
    } else if (c.code < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c.code));
    } else if (c.code < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c.code));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<unsigned>(c.code));
    }
  }
  out.push_back(quote);
  return out;
}

// Writes one value; remembers whether a user wrote any string of it.
class Writer {
 public:
  Writer(bool as_json, std::optional<int> indent) : as_json_(as_json), indent_(indent) {}

  StatusOr<MarkedText> Run(const Value& value) {
    TANDEM_RETURN_IF_ERROR(Write(value, 0));
    return from_user_ ? MarkedText::FromUser(std::move(out_))
                      : MarkedText::Trusted(std::move(out_));
  }

 private:
  Status Write(const Value& value, int level) {
    if (const MarkedText* s = value.string()) {
      WriteString(*s);
    } else if (value.is_none()) {
      out_ += as_json_ ? "null" : "None";
    } else if (value.is_bool()) {
      out_ += as_json_ ? (value.Truthy() ? "true" : "false") : (value.Truthy() ? "True" : "False");
    } else if (value.is_float()) {
      WriteFloat(*value.number());
    } else if (auto i = value.integer()) {
      out_ += fmt::format("{}", *i);
    } else if (auto list = value.list()) {
      return WriteList(*list, level);
    } else if (const Dict* dict = value.dict()) {
      return WriteDict(*dict, level);
    } else if (value.is_undefined() && !as_json_) {
      out_ += "Undefined";
    } else {
      return InvalidArgument("a value of type {} cannot be written as {}", value.TypeName(),
                             as_json_ ? "JSON" : "text");
    }
    return OkStatus();
  }

  void WriteString(const MarkedText& text) {
    from_user_ = from_user_ || !text.user_ranges().empty();
    out_ += as_json_ ? JsonString(text.text()) : QuotePython(text.text());
  }

  void WriteFloat(double d) {
    if (as_json_ && std::isnan(d)) {
      out_ += "NaN";
    } else if (as_json_ && std::isinf(d)) {
      out_ += d > 0 ? "Infinity" : "-Infinity";
    } else {
      out_ += FormatFloat(d);
    }
  }

  // Between two items, and around all of them.
  void Separate(bool first, int level) {
    if (!first) out_ += indent_ ? "," : ", ";
    Break(level);
  }
  void Break(int level) {
    if (!indent_) return;
    out_.push_back('\n');
    out_.append(static_cast<std::size_t>(level) * static_cast<std::size_t>(*indent_), ' ');
  }

  Status WriteList(const List& list, int level) {
    const bool tuple = list.is_tuple && !as_json_;
    out_ += tuple ? "(" : "[";
    bool first = true;
    for (const Value& item : list.items) {
      Separate(first, level + 1);
      first = false;
      TANDEM_RETURN_IF_ERROR(Write(item, level + 1));
    }
    if (tuple && list.items.size() == 1) out_ += ",";
    if (!first) Break(level);
    out_ += tuple ? ")" : "]";
    return OkStatus();
  }

  Status WriteDict(const Dict& dict, int level) {
    out_ += "{";
    bool first = true;
    for (const auto& [key, item] : dict.items) {
      Separate(first, level + 1);
      first = false;
      WriteString(key);
      out_ += ": ";
      TANDEM_RETURN_IF_ERROR(Write(item, level + 1));
    }
    if (!first) Break(level);
    out_ += "}";
    return OkStatus();
  }

  const bool as_json_;
  const std::optional<int> indent_;
  bool from_user_ = false;
  std::string out_;
};

}  // namespace

std::string FormatFloat(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  std::string out =
      fmt::format("{}", d);  // shortest that reads back; exponent where Python has one
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

StatusOr<MarkedText> Value::Str() const {
  if (const MarkedText* s = string()) return *s;
  if (is_undefined()) return MarkedText();
  return Repr();
}

StatusOr<MarkedText> Value::Repr() const { return Writer(false, std::nullopt).Run(*this); }

StatusOr<MarkedText> ToJson(const Value& value, std::optional<int> indent) {
  return Writer(true, indent).Run(value);
}

}  // namespace tandem::chat_template
