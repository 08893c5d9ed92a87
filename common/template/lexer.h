// Cuts a template into tokens, whitespace control done: trim_blocks, lstrip_blocks, '-' and '+'
// signs, comments, raw blocks, the trailing newline. Source: Jinja2's documentation and its
// lexer.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem::chat_template {

enum class TokenType : std::uint8_t {
  kData,           // text
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kString,    // text: the string, escapes resolved
  kInteger,   // integer
  kFloat,     // real
  kOperator,  // text: the operator
  kEnd,
};

struct Token {
  TokenType type;
  int line;
  std::string text = {};
  std::int64_t integer = 0;
  double real = 0;
};

// Errors: InvalidArgument with the line.
StatusOr<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace tandem::chat_template
