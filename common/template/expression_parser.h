// Jinja's expressions, by recursive descent. Source: Jinja2's parser.py, for precedence.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/template/ast.h"
#include "common/template/lexer.h"

namespace tandem::chat_template {

template <std::size_t N>
bool Contains(const std::array<std::string_view, N>& all, std::string_view name) {
  return std::find(all.begin(), all.end(), name) != all.end();
}

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& Peek(std::size_t ahead = 0) const;
  Token Next();
  bool IsOperator(std::string_view text, std::size_t ahead = 0) const;
  bool IsName(std::string_view text, std::size_t ahead = 0) const;
  bool TakeOperator(std::string_view text);
  bool TakeName(std::string_view text);
  Status Expect(std::string_view op);
  StatusOr<std::string> ExpectName();

  // An expression; with `tuple`, also `a, b`. With `condition` false, an `if` behind it is left
  // alone.
  StatusOr<ExprPtr> Expression(bool condition = true);
  StatusOr<ExprPtr> TupleOrExpression();

  Status Unsupported(std::string_view what, int line) const;
  Status Error(std::string_view what, int line) const;

  // Macros that the template calls, with the line, to be checked against those it defines.
  const std::map<std::string, int>& called() const { return called_; }
  // Variables that it reads, with the line of the first time.
  const std::map<std::string, int>& read() const { return read_; }

 private:
  StatusOr<ExprPtr> Or();
  StatusOr<ExprPtr> And();
  StatusOr<ExprPtr> Not();
  StatusOr<ExprPtr> Compare();
  StatusOr<ExprPtr> Sum();
  StatusOr<ExprPtr> Concat();
  StatusOr<ExprPtr> Product();
  StatusOr<ExprPtr> Power();
  StatusOr<ExprPtr> Unary(bool with_filters);
  StatusOr<ExprPtr> Primary();
  StatusOr<ExprPtr> Parenthesis(int line);
  StatusOr<ExprPtr> ListLiteral(int line);
  StatusOr<ExprPtr> DictLiteral(int line);
  StatusOr<ExprPtr> Postfix(ExprPtr subject);
  StatusOr<ExprPtr> Filters(ExprPtr subject);
  StatusOr<ExprPtr> Test(ExprPtr subject, int line);
  StatusOr<ExprPtr> Subscript(ExprPtr subject, int line);
  StatusOr<ExprPtr> Attribute(ExprPtr subject, int line);
  StatusOr<ExprPtr> GlobalCall(const std::string& name, int line);

  struct CallArguments {
    std::vector<ExprPtr> positional;
    std::vector<std::pair<std::string, ExprPtr>> named;
  };
  // After the opening parenthesis, to the closing one.
  StatusOr<CallArguments> Arguments();
  StatusOr<ExprPtr> BuiltinCall(Expr::Kind kind, std::string_view what, const Builtin& builtin,
                                ExprPtr subject, CallArguments arguments, int line);

  StatusOr<ExprPtr> Make(Expr expr) const;
  StatusOr<ExprPtr> Binary(Expr::Kind kind, std::string name, ExprPtr left, ExprPtr right,
                           int line) const;

  std::vector<Token> tokens_;
  std::size_t pos_ = 0;
  int nesting_ = 0;
  std::map<std::string, int> called_;
  std::map<std::string, int> read_;
};

}  // namespace tandem::chat_template
