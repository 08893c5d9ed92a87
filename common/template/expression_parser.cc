#include "common/template/expression_parser.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tandem::chat_template {
namespace {

constexpr int kMaxTreeDepth = 200;  // of an expression's tree
constexpr int kMaxNesting = 60;

// Names with a meaning of their own in Jinja that this subset lacks.
constexpr std::array<std::string_view, 13> kRefusedNames = {
    "self",   "super",  "caller",       "varargs",         "kwargs", "dict",     "lipsum",
    "cycler", "joiner", "strftime_now", "raise_exception", "range",  "namespace"};

// Counts open recursions, so that the parser's own stack is bounded.
class Nested {
 public:
  explicit Nested(int& depth) : depth_(depth) { ++depth_; }
  ~Nested() { --depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  int& depth_;
};

}  // namespace

const Token& ExpressionParser::Peek(std::size_t ahead) const {
  return tokens_[std::min(pos_ + ahead, tokens_.size() - 1)];
}

Token ExpressionParser::Next() {
  Token token = Peek();
  if (pos_ + 1 < tokens_.size()) ++pos_;
  return token;
}

bool ExpressionParser::IsOperator(std::string_view text, std::size_t ahead) const {
  return Peek(ahead).type == TokenType::kOperator && Peek(ahead).text == text;
}

bool ExpressionParser::IsName(std::string_view text, std::size_t ahead) const {
  return Peek(ahead).type == TokenType::kName && Peek(ahead).text == text;
}

bool ExpressionParser::TakeOperator(std::string_view text) {
  const bool found = IsOperator(text);
  if (found) Next();
  return found;
}

bool ExpressionParser::TakeName(std::string_view text) {
  const bool found = IsName(text);
  if (found) Next();
  return found;
}

Status ExpressionParser::Unsupported(std::string_view what, int line) const {
  return InvalidArgument("chat template: unsupported {} at line {}", what, line);
}

Status ExpressionParser::Error(std::string_view what, int line) const {
  return InvalidArgument("chat template: {} at line {}", what, line);
}

Status ExpressionParser::Expect(std::string_view op) {
  if (TakeOperator(op)) return OkStatus();
  return Error(fmt::format("expected '{}' before '{}'", op, Peek().text), Peek().line);
}

StatusOr<std::string> ExpressionParser::ExpectName() {
  if (Peek().type != TokenType::kName) {
    return Error(fmt::format("expected a name before '{}'", Peek().text), Peek().line);
  }
  return Next().text;
}

StatusOr<ExprPtr> ExpressionParser::Make(Expr expr) const {
  for (const ExprPtr& arg : expr.args) {
    if (arg != nullptr) expr.depth = std::max(expr.depth, arg->depth + 1);
  }
  if (expr.depth > kMaxTreeDepth) {
    return Error(fmt::format("expression deeper than {}", kMaxTreeDepth), expr.line);
  }
  return std::make_unique<const Expr>(std::move(expr));
}

StatusOr<ExprPtr> ExpressionParser::Binary(Expr::Kind kind, std::string name, ExprPtr left,
                                           ExprPtr right, int line) const {
  Expr expr{.kind = kind, .line = line, .name = std::move(name)};
  expr.args.push_back(std::move(left));
  expr.args.push_back(std::move(right));
  return Make(std::move(expr));
}

StatusOr<ExprPtr> ExpressionParser::TupleOrExpression() {
  const int line = Peek().line;
  TANDEM_ASSIGN_OR_RETURN(ExprPtr first, Expression());
  if (!IsOperator(",")) return first;
  Expr tuple{.kind = Expr::Kind::kTuple, .line = line};
  tuple.args.push_back(std::move(first));
  while (TakeOperator(",")) {
    if (Peek().type == TokenType::kBlockEnd || Peek().type == TokenType::kVariableEnd) break;
    TANDEM_ASSIGN_OR_RETURN(ExprPtr item, Expression());
    tuple.args.push_back(std::move(item));
  }
  return Make(std::move(tuple));
}

StatusOr<ExprPtr> ExpressionParser::Expression(bool condition) {
  const Nested nested(nesting_);
  if (nesting_ > kMaxNesting) {
    return Error(fmt::format("expressions nested deeper than {}", kMaxNesting), Peek().line);
  }
  TANDEM_ASSIGN_OR_RETURN(ExprPtr value, Or());
  while (condition && IsName("if")) {
    Expr expr{.kind = Expr::Kind::kIf, .line = Next().line};
    TANDEM_ASSIGN_OR_RETURN(ExprPtr test, Or());
    ExprPtr otherwise;
    if (TakeName("else")) {
      TANDEM_ASSIGN_OR_RETURN(otherwise, Expression());
    }
    expr.args.push_back(std::move(value));
    expr.args.push_back(std::move(test));
    expr.args.push_back(std::move(otherwise));
    TANDEM_ASSIGN_OR_RETURN(value, Make(std::move(expr)));
  }
  return value;
}

StatusOr<ExprPtr> ExpressionParser::Or() {
  TANDEM_ASSIGN_OR_RETURN(ExprPtr left, And());
  while (IsName("or")) {
    const int line = Next().line;
    TANDEM_ASSIGN_OR_RETURN(ExprPtr right, And());
    TANDEM_ASSIGN_OR_RETURN(left,
                            Binary(Expr::Kind::kOr, "or", std::move(left), std::move(right), line));
  }
  return left;
}

StatusOr<ExprPtr> ExpressionParser::And() {
  TANDEM_ASSIGN_OR_RETURN(ExprPtr left, Not());
  while (IsName("and")) {
    const int line = Next().line;
    TANDEM_ASSIGN_OR_RETURN(ExprPtr right, Not());
    TANDEM_ASSIGN_OR_RETURN(
        left, Binary(Expr::Kind::kAnd, "and", std::move(left), std::move(right), line));
  }
  return left;
}

StatusOr<ExprPtr> ExpressionParser::Not() {
  if (!IsName("not")) return Compare();
  const Nested nested(nesting_);
  if (nesting_ > kMaxNesting) return Error("too many 'not'", Peek().line);
  Expr expr{.kind = Expr::Kind::kNot, .line = Next().line};
  TANDEM_ASSIGN_OR_RETURN(ExprPtr operand, Not());
  expr.args.push_back(std::move(operand));
  return Make(std::move(expr));
}

StatusOr<ExprPtr> ExpressionParser::Compare() {
  Expr expr{.kind = Expr::Kind::kCompare, .line = Peek().line};
  TANDEM_ASSIGN_OR_RETURN(ExprPtr first, Sum());
  expr.args.push_back(std::move(first));
  while (true) {
    constexpr std::array<std::string_view, 6> kOperators = {"==", "!=", "<", "<=", ">", ">="};
    if (Peek().type == TokenType::kOperator && Contains(kOperators, Peek().text)) {
      expr.operators.push_back(Next().text);
    } else if (TakeName("in")) {
      expr.operators.push_back("in");
    } else if (IsName("not") && IsName("in", 1)) {
      Next();
      Next();
      expr.operators.push_back("not in");
    } else {
      break;
    }
    TANDEM_ASSIGN_OR_RETURN(ExprPtr operand, Sum());
    expr.args.push_back(std::move(operand));
  }
  if (expr.operators.empty()) return std::move(expr.args[0]);
  return Make(std::move(expr));
}

StatusOr<ExprPtr> ExpressionParser::Sum() {
  TANDEM_ASSIGN_OR_RETURN(ExprPtr left, Concat());
  while (IsOperator("+") || IsOperator("-")) {
    const Token op = Next();
    TANDEM_ASSIGN_OR_RETURN(ExprPtr right, Concat());
    TANDEM_ASSIGN_OR_RETURN(
        left, Binary(Expr::Kind::kArithmetic, op.text, std::move(left), std::move(right), op.line));
  }
  return left;
}

StatusOr<ExprPtr> ExpressionParser::Concat() {
  Expr expr{.kind = Expr::Kind::kConcat, .line = Peek().line};
  TANDEM_ASSIGN_OR_RETURN(ExprPtr first, Product());
  expr.args.push_back(std::move(first));
  while (TakeOperator("~")) {
    TANDEM_ASSIGN_OR_RETURN(ExprPtr next, Product());
    expr.args.push_back(std::move(next));
  }
  if (expr.args.size() == 1) return std::move(expr.args[0]);
  return Make(std::move(expr));
}

StatusOr<ExprPtr> ExpressionParser::Product() {
  TANDEM_ASSIGN_OR_RETURN(ExprPtr left, Power());
  while (IsOperator("*") || IsOperator("/") || IsOperator("//") || IsOperator("%")) {
    const Token op = Next();
    TANDEM_ASSIGN_OR_RETURN(ExprPtr right, Power());
    TANDEM_ASSIGN_OR_RETURN(
        left, Binary(Expr::Kind::kArithmetic, op.text, std::move(left), std::move(right), op.line));
  }
  return left;
}

StatusOr<ExprPtr> ExpressionParser::Power() {
  TANDEM_ASSIGN_OR_RETURN(ExprPtr left, Unary(true));
  if (IsOperator("**")) return Unsupported("operator '**'", Peek().line);
  return left;
}

StatusOr<ExprPtr> ExpressionParser::Unary(bool with_filters) {
  const Nested nested(nesting_);
  if (nesting_ > kMaxNesting) return Error("too many signs", Peek().line);
  ExprPtr value;
  if (IsOperator("-") || IsOperator("+")) {
    const Token sign = Next();
    Expr expr{.kind = sign.text == "-" ? Expr::Kind::kNegate : Expr::Kind::kPlus,
              .line = sign.line};
    TANDEM_ASSIGN_OR_RETURN(ExprPtr operand, Unary(false));
    expr.args.push_back(std::move(operand));
    TANDEM_ASSIGN_OR_RETURN(value, Make(std::move(expr)));
  } else {
    TANDEM_ASSIGN_OR_RETURN(value, Primary());
  }
  TANDEM_ASSIGN_OR_RETURN(value, Postfix(std::move(value)));
  return with_filters ? Filters(std::move(value)) : StatusOr<ExprPtr>(std::move(value));
}

StatusOr<ExprPtr> ExpressionParser::Primary() {
  const Token token = Next();
  Expr expr{.kind = Expr::Kind::kConstant, .line = token.line};
  switch (token.type) {
    case TokenType::kInteger:
      expr.constant = Value::Int(token.integer);
      return Make(std::move(expr));
    case TokenType::kFloat:
      expr.constant = Value::Float(token.real);
      return Make(std::move(expr));
    case TokenType::kString: {
      std::string text = token.text;
      while (Peek().type == TokenType::kString) text += Next().text;
      expr.constant = Value::Trusted(text);
      return Make(std::move(expr));
    }
    case TokenType::kName:
      break;
    case TokenType::kOperator:
      if (token.text == "(") return Parenthesis(token.line);
      if (token.text == "[") return ListLiteral(token.line);
      if (token.text == "{") return DictLiteral(token.line);
      [[fallthrough]];
    default:
      return Error(fmt::format("unexpected '{}'", token.text), token.line);
  }
  const std::string& name = token.text;
  if (name == "true" || name == "True") {
    expr.constant = Value::Bool(true);
  } else if (name == "false" || name == "False") {
    expr.constant = Value::Bool(false);
  } else if (name == "none" || name == "None") {
    expr.constant = Value();
  } else if (IsOperator("(")) {
    return GlobalCall(name, token.line);
  } else if (Contains(kRefusedNames, name)) {
    return Unsupported(fmt::format("name '{}'", name), token.line);
  } else {
    expr.kind = Expr::Kind::kName;
    expr.name = name;
    read_.try_emplace(name, token.line);
  }
  return Make(std::move(expr));
}

StatusOr<ExprPtr> ExpressionParser::Parenthesis(int line) {
  Expr tuple{.kind = Expr::Kind::kTuple, .line = line};
  bool has_comma = false;
  while (!IsOperator(")")) {
    TANDEM_ASSIGN_OR_RETURN(ExprPtr item, Expression());
    tuple.args.push_back(std::move(item));
    if (!TakeOperator(",")) break;
    has_comma = true;
  }
  TANDEM_RETURN_IF_ERROR(Expect(")"));
  if (tuple.args.size() == 1 && !has_comma) return std::move(tuple.args[0]);
  return Make(std::move(tuple));
}

StatusOr<ExprPtr> ExpressionParser::ListLiteral(int line) {
  Expr list{.kind = Expr::Kind::kList, .line = line};
  while (!IsOperator("]")) {
    TANDEM_ASSIGN_OR_RETURN(ExprPtr item, Expression());
    list.args.push_back(std::move(item));
    if (!TakeOperator(",")) break;
  }
  TANDEM_RETURN_IF_ERROR(Expect("]"));
  return Make(std::move(list));
}

StatusOr<ExprPtr> ExpressionParser::DictLiteral(int line) {
  Expr dict{.kind = Expr::Kind::kDict, .line = line};
  while (!IsOperator("}")) {
    TANDEM_ASSIGN_OR_RETURN(ExprPtr key, Expression());
    TANDEM_RETURN_IF_ERROR(Expect(":"));
    TANDEM_ASSIGN_OR_RETURN(ExprPtr value, Expression());
    dict.args.push_back(std::move(key));
    dict.args.push_back(std::move(value));
    if (!TakeOperator(",")) break;
  }
  TANDEM_RETURN_IF_ERROR(Expect("}"));
  return Make(std::move(dict));
}

}  // namespace tandem::chat_template
