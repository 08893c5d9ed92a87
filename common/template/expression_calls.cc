// The part of ExpressionParser behind a primary: attributes, subscripts, filters, tests, calls.
#include <algorithm>
#include <array>
#include <utility>

#include "common/template/expression_parser.h"

namespace tandem::chat_template {
namespace {

constexpr std::array<std::string_view, 9> kLoopAttributes = {
    "index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem"};
constexpr std::array<std::string_view, 8> kRefusedFunctions = {
    "dict", "lipsum", "cycler", "joiner", "strftime_now", "super", "caller", "self"};

}  // namespace

StatusOr<ExprPtr> ExpressionParser::Postfix(ExprPtr subject) {
  while (true) {
    const int line = Peek().line;
    if (TakeOperator(".")) {
      TANDEM_ASSIGN_OR_RETURN(subject, Attribute(std::move(subject), line));
    } else if (TakeOperator("[")) {
      TANDEM_ASSIGN_OR_RETURN(subject, Subscript(std::move(subject), line));
    } else if (IsOperator("(")) {
      return Unsupported("call of an expression", line);
    } else {
      return subject;
    }
  }
}

StatusOr<ExprPtr> ExpressionParser::Attribute(ExprPtr subject, int line) {
  if (Peek().type == TokenType::kInteger) {
    Expr index{.kind = Expr::Kind::kConstant, .line = line};
    index.constant = Value::Int(Next().integer);
    TANDEM_ASSIGN_OR_RETURN(ExprPtr key, Make(std::move(index)));
    return Binary(Expr::Kind::kItem, "", std::move(subject), std::move(key), line);
  }
  TANDEM_ASSIGN_OR_RETURN(std::string name, ExpectName());
  if (TakeOperator("(")) {
    const Builtin* method = FindMethod(name);
    if (method == nullptr) return Unsupported(fmt::format("method '{}'", name), line);
    TANDEM_ASSIGN_OR_RETURN(CallArguments arguments, Arguments());
    return BuiltinCall(Expr::Kind::kMethod, "method", *method, std::move(subject),
                       std::move(arguments), line);
  }
  const bool of_loop = subject->kind == Expr::Kind::kName && subject->name == "loop";
  if (name.starts_with("__") || IsDictMethod(name) ||
      (of_loop && !Contains(kLoopAttributes, name))) {
    return Unsupported(fmt::format("attribute '{}'", name), line);
  }
  Expr expr{.kind = Expr::Kind::kAttribute, .line = line, .name = std::move(name)};
  expr.args.push_back(std::move(subject));
  return Make(std::move(expr));
}

StatusOr<ExprPtr> ExpressionParser::Subscript(ExprPtr subject, int line) {
  Expr expr{.kind = Expr::Kind::kSlice, .line = line};
  expr.args.push_back(std::move(subject));
  bool is_slice = false;
  for (int part = 0; part < 3; ++part) {
    ExprPtr bound;
    if (!IsOperator(":") && !IsOperator("]")) {
      TANDEM_ASSIGN_OR_RETURN(bound, Expression());
    }
    expr.args.push_back(std::move(bound));
    if (!TakeOperator(":")) break;
    is_slice = true;
  }
  if (IsOperator(",")) return Unsupported("subscript of several parts", line);
  TANDEM_RETURN_IF_ERROR(Expect("]"));
  if (is_slice) {
    expr.args.resize(4);
    return Make(std::move(expr));
  }
  if (expr.args[1] == nullptr) return Error("empty subscript", line);
  expr.kind = Expr::Kind::kItem;
  return Make(std::move(expr));
}

StatusOr<ExprPtr> ExpressionParser::Filters(ExprPtr subject) {
  while (true) {
    const int line = Peek().line;
    if (TakeOperator("|")) {
      TANDEM_ASSIGN_OR_RETURN(const std::string name, ExpectName());
      const Builtin* filter = FindFilter(name);
      if (filter == nullptr) return Unsupported(fmt::format("filter '{}'", name), line);
      CallArguments arguments;
      if (TakeOperator("(")) {
        TANDEM_ASSIGN_OR_RETURN(arguments, Arguments());
      }
      TANDEM_ASSIGN_OR_RETURN(subject, BuiltinCall(Expr::Kind::kFilter, "filter", *filter,
                                                   std::move(subject), std::move(arguments), line));
    } else if (TakeName("is")) {
      TANDEM_ASSIGN_OR_RETURN(subject, Test(std::move(subject), line));
    } else if (IsOperator("(")) {
      return Unsupported("call of an expression", line);
    } else {
      return subject;
    }
  }
}

StatusOr<ExprPtr> ExpressionParser::Test(ExprPtr subject, int line) {
  const bool negated = TakeName("not");
  TANDEM_ASSIGN_OR_RETURN(const std::string name, ExpectName());
  const Builtin* test = FindTest(name);
  if (test == nullptr) return Unsupported(fmt::format("test '{}'", name), line);
  CallArguments arguments;
  const TokenType type = Peek().type;
  const bool is_name =
      type == TokenType::kName && !IsName("else") && !IsName("or") && !IsName("and");
  if (TakeOperator("(")) {
    TANDEM_ASSIGN_OR_RETURN(arguments, Arguments());
  } else if (is_name || type == TokenType::kString || type == TokenType::kInteger ||
             type == TokenType::kFloat || IsOperator("[") || IsOperator("{")) {
    if (test->parameters.empty()) {
      return Error(fmt::format("test '{}' takes no argument, but '{}' follows", name, Peek().text),
                   line);
    }
    TANDEM_ASSIGN_OR_RETURN(ExprPtr argument, Primary());
    TANDEM_ASSIGN_OR_RETURN(argument, Postfix(std::move(argument)));
    arguments.positional.push_back(std::move(argument));
  }
  TANDEM_ASSIGN_OR_RETURN(ExprPtr call,
                          BuiltinCall(Expr::Kind::kTest, "test", *test, std::move(subject),
                                      std::move(arguments), line));
  if (!negated) return call;
  Expr expr{.kind = Expr::Kind::kNot, .line = line};
  expr.args.push_back(std::move(call));
  return Make(std::move(expr));
}

StatusOr<ExpressionParser::CallArguments> ExpressionParser::Arguments() {
  CallArguments arguments;
  while (!IsOperator(")")) {
    if (IsOperator("*")) return Unsupported("argument '*'", Peek().line);
    if (Peek().type == TokenType::kName && IsOperator("=", 1)) {
      std::string name = Next().text;
      Next();
      TANDEM_ASSIGN_OR_RETURN(ExprPtr value, Expression());
      arguments.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!arguments.named.empty())
        return Error("positional argument after a named one", Peek().line);
      TANDEM_ASSIGN_OR_RETURN(ExprPtr value, Expression());
      arguments.positional.push_back(std::move(value));
    }
    if (!TakeOperator(",")) break;
  }
  TANDEM_RETURN_IF_ERROR(Expect(")"));
  return arguments;
}

StatusOr<ExprPtr> ExpressionParser::BuiltinCall(Expr::Kind kind, std::string_view what,
                                                const Builtin& builtin, ExprPtr subject,
                                                CallArguments arguments, int line) {
  Expr expr{.kind = kind, .line = line, .name = std::string(builtin.name)};
  expr.builtin = &builtin;
  expr.args.push_back(std::move(subject));
  if (arguments.positional.size() > builtin.parameters.size()) {
    return Unsupported(
        fmt::format("argument {} of {} '{}'", builtin.parameters.size() + 1, what, builtin.name),
        line);
  }
  for (ExprPtr& value : arguments.positional) expr.args.push_back(std::move(value));
  expr.args.resize(builtin.parameters.size() + 1);
  for (auto& [name, value] : arguments.named) {
    const auto it = std::find(builtin.parameters.begin(), builtin.parameters.end(), name);
    const auto index = static_cast<std::size_t>(it - builtin.parameters.begin()) + 1;
    if (it == builtin.parameters.end() || expr.args[index] != nullptr) {
      return Unsupported(fmt::format("argument '{}' of {} '{}'", name, what, builtin.name), line);
    }
    expr.args[index] = std::move(value);
  }
  for (std::size_t i = 0; i < builtin.required; ++i) {
    if (expr.args[i + 1] == nullptr) {
      return Error(fmt::format("{} '{}' without its argument '{}'", what, builtin.name,
                               builtin.parameters[i]),
                   line);
    }
  }
  return Make(std::move(expr));
}

StatusOr<ExprPtr> ExpressionParser::GlobalCall(const std::string& name, int line) {
  if (Contains(kRefusedFunctions, name)) {
    return Unsupported(fmt::format("function '{}'", name), line);
  }
  Next();  // (
  TANDEM_ASSIGN_OR_RETURN(CallArguments arguments, Arguments());
  Expr expr{.kind = Expr::Kind::kMacroCall, .line = line, .name = name};
  const std::size_t positional = arguments.positional.size();
  const bool named = !arguments.named.empty();
  expr.args = std::move(arguments.positional);
  for (auto& [key, value] : arguments.named) {
    if (std::find(expr.names.begin(), expr.names.end(), key) != expr.names.end()) {
      return Error(fmt::format("argument '{}' twice", key), line);
    }
    expr.names.push_back(key);
    expr.args.push_back(std::move(value));
  }
  if (name == "range") {
    if (named || positional < 1 || positional > 3)
      return Error("range takes 1 to 3 arguments", line);
    expr.kind = Expr::Kind::kRange;
  } else if (name == "namespace") {
    if (positional > 0) return Unsupported("positional argument of 'namespace'", line);
    expr.kind = Expr::Kind::kNamespace;
  } else if (name == "raise_exception") {
    if (named || positional != 1) return Error("raise_exception takes one argument", line);
    expr.kind = Expr::Kind::kRaise;
  } else {
    called_.try_emplace(name, line);
  }
  return Make(std::move(expr));
}

}  // namespace tandem::chat_template
