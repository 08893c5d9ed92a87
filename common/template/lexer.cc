#include "common/template/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "common/base/utf8.h"
#include "common/template/python_text.h"

namespace tandem::chat_template {
namespace {

constexpr std::size_t kMaxSource = std::size_t{1} << 20;
constexpr std::array<std::string_view, 6> kLongOperators = {"//", "**", "==", "!=", ">=", "<="};
constexpr std::string_view kOperators = "+-/*%~[](){}<>=.:|,;";

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

// Line ends become "\n", and the last one goes.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : in_(source) {}

  StatusOr<std::vector<Token>> Run() {
    while (pos_ < in_.size()) TANDEM_RETURN_IF_ERROR(Piece());
    Add(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  // Text up to the next delimiter, and what that delimits.
  Status Piece() {
    std::size_t begin = in_.find('{', pos_);
    while (begin != in_.npos && begin + 1 < in_.size() && in_[begin + 1] != '{' &&
           in_[begin + 1] != '%' && in_[begin + 1] != '#') {
      begin = in_.find('{', begin + 1);
    }
    if (begin == in_.npos || begin + 1 >= in_.size()) {
      Data(in_.substr(pos_));
      pos_ = in_.size();
      return OkStatus();
    }
    const char kind = in_[begin + 1];
    const char sign = begin + 2 < in_.size() ? in_[begin + 2] : '\0';
    std::string_view text = in_.substr(pos_, begin - pos_);
    const std::string_view whole = text;
    if (sign == '-') {
      text = text.substr(0, TrailingSpace(text));
    } else if (sign != '+' && kind != '{') {
      const std::size_t line_start = text.rfind('\n') + 1;  // 0 without one
      if ((line_start > 0 || line_starting_) &&
          LeadingSpace(text.substr(line_start)) == text.size() - line_start) {
        text = text.substr(0, line_start);
      }
    }
    Data(text);
    Advance(whole.size() - text.size());
    Advance(sign == '-' || sign == '+' ? 3 : 2);
    if (kind == '#') return Comment();
    const std::string_view rest =
        in_.substr(std::min(pos_ + LeadingSpace(in_.substr(pos_)), in_.size()));
    if (kind == '%' && rest.starts_with("raw") && (rest.size() == 3 || !IsNamePart(rest[3]))) {
      return Error("unsupported statement 'raw'");  // its text is no tokens
    }
    Add(kind == '{' ? TokenType::kVariableBegin : TokenType::kBlockBegin, "");
    return Code(kind == '{' ? "}}" : "%}");
  }

  Status Comment() {
    const std::size_t end = in_.find("#}", pos_);
    if (end == in_.npos) return Error("comment without end");
    char sign = end > pos_ ? in_[end - 1] : '\0';
    Advance(end - pos_);
    Close(sign, true);
    return OkStatus();
  }

  // Past a two-character end delimiter and what `sign`, the character before it, takes.
  void Close(char sign, bool trims_newline) {
    Advance(2);
    const std::size_t start = pos_;
    if (sign == '-') {
      Advance(LeadingSpace(in_.substr(pos_)));
    } else if (sign != '+' && trims_newline && pos_ < in_.size() && in_[pos_] == '\n') {
      Advance(1);
    }
    line_starting_ = pos_ > start && in_[pos_ - 1] == '\n';
  }

  // Tokens up to `end`.
  Status Code(std::string_view end) {
    while (true) {
      Advance(LeadingSpace(in_.substr(pos_)));
      const std::string_view rest = in_.substr(pos_);
      if (rest.empty()) return Error(fmt::format("no '{}'", end));
      if (open_.empty()) {
        const char sign = rest[0];
        const bool is_block = end == "%}";
        const bool has_sign =
            (sign == '-' || (is_block && sign == '+')) && rest.substr(1, 2) == end;
        if (has_sign || rest.substr(0, 2) == end) {
          Add(is_block ? TokenType::kBlockEnd : TokenType::kVariableEnd, "");
          if (has_sign) Advance(1);
          Close(has_sign ? sign : '\0', is_block);
          return OkStatus();
        }
      }
      TANDEM_RETURN_IF_ERROR(Expression());
    }
  }

  Status Expression() {
    const char c = in_[pos_];
    if (IsDigit(c)) return Number();
    if (IsNameStart(c)) {
      std::size_t length = 1;
      while (pos_ + length < in_.size() && IsNamePart(in_[pos_ + length])) ++length;
      Add(TokenType::kName, in_.substr(pos_, length));
      Advance(length);
      return OkStatus();
    }
    if (c == '\'' || c == '"') return String(c);
    for (std::string_view op : kLongOperators) {
      if (in_.substr(pos_, 2) != op) continue;
      Add(TokenType::kOperator, op);
      Advance(2);
      return OkStatus();
    }
    if (kOperators.find(c) == kOperators.npos) {
      return Error(fmt::format("unexpected character '{}'", in_.substr(pos_, CharacterLength())));
    }
    if (c == '(' || c == '[' || c == '{') open_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (open_.empty() || open_.back() != c) return Error(fmt::format("unexpected '{}'", c));
      open_.pop_back();
    }
    Add(TokenType::kOperator, in_.substr(pos_, 1));
    Advance(1);
    return OkStatus();
  }

  Status Number() {
    const bool after_dot = pos_ > 0 && in_[pos_ - 1] == '.';
    auto digits = [&](std::size_t from) {
      while (pos_ + from < in_.size() && IsDigit(in_[pos_ + from])) ++from;
      return from;
    };
    auto at = [&](std::size_t i) { return pos_ + i < in_.size() ? in_[pos_ + i] : '\0'; };
    std::size_t length = digits(1);
    bool real = false;
    if (!after_dot && at(length) == '.' && IsDigit(at(length + 1))) {
      real = true;
      length = digits(length + 1);
    }
    if (!after_dot && (at(length) == 'e' || at(length) == 'E')) {
      const std::size_t sign = at(length + 1) == '+' || at(length + 1) == '-' ? 1 : 0;
      if (IsDigit(at(length + 1 + sign))) {
        real = true;
        length = digits(length + 1 + sign);
      }
    }
    const std::string_view text = in_.substr(pos_, length);
    if (IsNamePart(at(length)) || (!real && text.size() > 1 && text[0] == '0')) {
      return Error(fmt::format("number '{}{}'", text, at(length)));
    }
    Token token{real ? TokenType::kFloat : TokenType::kInteger, line_, std::string(text)};
    const char* end = text.data() + text.size();
    const auto result = real ? std::from_chars(text.data(), end, token.real)
                             : std::from_chars(text.data(), end, token.integer);
    if (result.ec != std::errc()) return Error(fmt::format("number '{}' out of range", text));
    tokens_.push_back(std::move(token));
    Advance(length);
    return OkStatus();
  }

  Status String(char quote) {
    std::size_t end = pos_ + 1;
    while (end < in_.size() && in_[end] != quote) end += in_[end] == '\\' ? 2 : 1;
    if (end >= in_.size()) return Error("string without end");
    TANDEM_ASSIGN_OR_RETURN(std::string text, Unescape(in_.substr(pos_ + 1, end - pos_ - 1)));
    Add(TokenType::kString, text);
    Advance(end + 1 - pos_);
    return OkStatus();
  }

  // Python's unicode-escape.
  StatusOr<std::string> Unescape(std::string_view raw) {
    std::string out;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\') {
        out.push_back(raw[i]);
        continue;
      }
      const char c = raw[++i];
      constexpr std::string_view kFrom = "\\'\"abfnrtv";
      constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
      if (c == '\n') continue;
      if (const std::size_t k = kFrom.find(c); k != kFrom.npos) {
        out.push_back(kTo[k]);
        continue;
      }
      std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
      if (digits > 0) {
        std::uint32_t code = 0;
        const std::string_view hex = raw.substr(i + 1, digits);
        const auto result = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
        if (hex.size() != digits || result.ptr != hex.data() + hex.size() || code > 0x10FFFF ||
            (code >= 0xD800 && code <= 0xDFFF)) {
          return Error(fmt::format("bad escape '\\{}{}'", c, hex));
        }
        AppendUtf8(code, out);
        i += digits;
      } else if (IsDigit(c) || c == 'N') {
        return Error(fmt::format("unsupported escape '\\{}'", c));
      } else {  // Python keeps what it does not know
        out.push_back('\\');
        out.push_back(c);
      }
    }
    return out;
  }

  void Data(std::string_view text) {
    if (!text.empty()) Add(TokenType::kData, text);
    Advance(text.size());
  }
  void Add(TokenType type, std::string_view text) {
    tokens_.push_back({type, line_, std::string(text)});
  }
  void Advance(std::size_t bytes) {
    const std::string_view passed = in_.substr(pos_, bytes);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    pos_ = std::min(pos_ + bytes, in_.size());
  }
  std::size_t CharacterLength() const { return ScanUtf8(in_, pos_).length; }
  Status Error(std::string_view what) const {
    return InvalidArgument("chat template: {} at line {}", what, line_);
  }

  std::string_view in_;
  std::size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::string open_;  // closing brackets that are due
  std::vector<Token> tokens_;
};

}  // namespace

StatusOr<std::vector<Token>> Tokenize(std::string_view source) {
  if (source.size() > kMaxSource) {
    return InvalidArgument("chat template: {} bytes; at most {}", source.size(), kMaxSource);
  }
  if (auto bad = FindInvalidUtf8(source)) {
    return InvalidArgument("chat template: not UTF-8 at byte {}", *bad);
  }
  const std::string text = NormalizeNewlines(source);
  return Lexer(text).Run();
}

}  // namespace tandem::chat_template
