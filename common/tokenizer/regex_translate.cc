// Checks that a pattern lies in the subset and writes it for PCRE2, whose own \s has U+180E beside
// White_Space.
#include <cstddef>
#include <string>
#include <string_view>

#include "common/tokenizer/regex_split.h"

namespace tandem::tokenizer {
namespace {

constexpr std::string_view kSpaceClass =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::size_t kMaxPattern = 16384;
constexpr int kMaxRepeat = 1000;

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  StatusOr<std::string> Run() {
    if (in_.size() > kMaxPattern) {
      return InvalidArgument("regular expression of {} bytes; at most {}", in_.size(), kMaxPattern);
    }
    while (pos_ < in_.size()) TANDEM_RETURN_IF_ERROR(in_class_ ? ClassItem() : Item());
    if (in_class_) return Refuse("unclosed class");
    return std::move(out_);
  }

 private:
  char Peek(std::size_t ahead = 0) const {
    return pos_ + ahead < in_.size() ? in_[pos_ + ahead] : '\0';
  }
  void Copy(std::size_t count) {
    out_ += in_.substr(pos_, count);
    pos_ += count;
  }
  Status Refuse(std::string_view what) const {
    return InvalidArgument("regular expression: {} at offset {} of '{}' is not supported", what,
                           pos_, in_.substr(0, 200));
  }

  Status Item() {
    switch (Peek()) {
      case '\\':
        return Escape();
      case '[':
        in_class_ = true;
        Copy(1);
        if (Peek() == '^') Copy(1);
        if (Peek() == ']') return Refuse("']' first in a class");
        return OkStatus();
      case '(':
        return Group();
      case '{':
        return Repeat();
      case '.':
      case '^':
      case '$':
        return Refuse(in_.substr(pos_, 1));
      default:
        Copy(1);
        return OkStatus();
    }
  }

  Status ClassItem() {
    switch (Peek()) {
      case '\\':
        return Escape();
      case '[':
        return Refuse("'[' in a class");
      case '&':
        if (Peek(1) == '&') return Refuse("&&");
        break;
      case ']':
        in_class_ = false;
        break;
      default:
        break;
    }
    Copy(1);
    return OkStatus();
  }

  Status Group() {
    if (Peek(1) == '*') return Refuse("(*");
    if (Peek(1) == '?') {
      const std::string_view rest = in_.substr(pos_ + 2);
      if (rest.substr(0, 2) == "i:") {
        Copy(4);
        return OkStatus();
      }
      if (rest.empty() || (rest[0] != ':' && rest[0] != '=' && rest[0] != '!')) {
        return Refuse(in_.substr(pos_, 3));
      }
      Copy(3);
      return OkStatus();
    }
    Copy(1);
    return OkStatus();
  }

  // {n}, {n,}, {n,m}
  Status Repeat() {
    std::size_t length = 1;
    for (int part = 0; part < 2; ++part) {
      int value = 0;
      const std::size_t start = length;
      while (IsDigit(Peek(length)) && value <= kMaxRepeat)
        value = value * 10 + (Peek(length++) - '0');
      if (value > kMaxRepeat || (part == 0 && length == start)) return Refuse("repeat count");
      if (part == 0) {
        if (Peek(length) != ',') break;
        ++length;
      }
    }
    if (Peek(length) != '}') return Refuse("'{'");
    if (Peek(length + 1) == '+') return Refuse("'}+'");
    Copy(length + 1);
    return OkStatus();
  }

  Status Escape() {
    const char c = Peek(1);
    switch (c) {
      case 's':
      case 'S':
        if (in_class_ && c == 'S') return Refuse("\\S in a class");
        if (!in_class_) out_ += c == 's' ? "[" : "[^";
        out_ += kSpaceClass;
        if (!in_class_) out_ += "]";
        pos_ += 2;
        return OkStatus();
      case 'r':
      case 'n':
      case 't':
      case 'd':
      case 'D':
        Copy(2);
        return OkStatus();
      case 'p':
      case 'P':
        return Braced("property", [](char x) { return IsLetter(x) || x == '_'; });
      case 'x':
        return Braced("\\x", IsHex);
      default:
        break;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte >= 0x7F || IsLetter(c) || IsDigit(c)) {
      return Refuse(in_.substr(pos_, 2));
    }
    Copy(2);
    return OkStatus();
  }

  template <typename Accept>
  Status Braced(std::string_view what, Accept accept) {
    std::size_t length = 3;
    while (accept(Peek(length))) ++length;
    if (Peek(2) != '{' || length == 3 || Peek(length) != '}') return Refuse(what);
    Copy(length + 1);
    return OkStatus();
  }

  std::string_view in_;
  std::size_t pos_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

StatusOr<std::string> TranslateRegex(std::string_view pattern) { return Translator(pattern).Run(); }

}  // namespace tandem::tokenizer
