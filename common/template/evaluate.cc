// Interpreter's expressions.
#include <algorithm>
#include <optional>
#include <utility>

#include "common/template/interpreter.h"
#include "common/template/operations.h"

namespace tandem::chat_template {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // as Jinja's sandbox has it

}  // namespace

StatusOr<Value> Interpreter::Evaluate(const Expr& expr) {
  if (Status status = budget_.Steps(1); !status.ok()) return At(expr.line, status);
  if (++depth_ > kMaxDepth) {
    return At(expr.line, ResourceExhausted("nested deeper than {}", kMaxDepth));
  }
  auto value = EvaluateKind(expr);
  --depth_;
  if (!value.ok()) return At(expr.line, value.status());
  return value;
}

StatusOr<Value> Interpreter::EvaluateKind(const Expr& expr) {
  using Kind = Expr::Kind;
  switch (expr.kind) {
    case Kind::kConstant:
      return expr.constant;
    case Kind::kName:
      return Lookup(expr.name);
    case Kind::kList:
    case Kind::kTuple: {
      TANDEM_ASSIGN_OR_RETURN(std::vector<Value> items, EvaluateAll(expr));
      return Value::MakeList(std::move(items), expr.kind == Kind::kTuple);
    }
    case Kind::kDict:
      return EvaluateDict(expr);
    case Kind::kCompare:
      return EvaluateCompare(expr);
    case Kind::kConcat:
      return EvaluateConcat(expr);
    case Kind::kSlice:
      return EvaluateSlice(expr);
    case Kind::kFilter:
    case Kind::kTest:
    case Kind::kMethod:
      return EvaluateBuiltin(expr);
    case Kind::kRange:
      return EvaluateRange(expr);
    case Kind::kNamespace:
      return EvaluateNamespace(expr);
    case Kind::kMacroCall:
      return EvaluateMacro(expr);
    case Kind::kIf: {
      TANDEM_ASSIGN_OR_RETURN(const Value condition, Evaluate(*expr.args[1]));
      if (condition.Truthy()) return Evaluate(*expr.args[0]);
      if (expr.args[2] != nullptr) return Evaluate(*expr.args[2]);
      return Value::MakeUndefined("an 'if' without 'else' was false");
    }
    default:
      break;
  }
  TANDEM_ASSIGN_OR_RETURN(Value first, Evaluate(*expr.args[0]));
  switch (expr.kind) {
    case Kind::kNot:
      return Value::Bool(!first.Truthy());
    case Kind::kAnd:
      return first.Truthy() ? Evaluate(*expr.args[1]) : StatusOr<Value>(std::move(first));
    case Kind::kOr:
      return first.Truthy() ? StatusOr<Value>(std::move(first)) : Evaluate(*expr.args[1]);
    case Kind::kNegate:
      return Negate(first);
    case Kind::kPlus:
      if (!first.number()) return InvalidArgument("'+' of {}", first.TypeName());
      return first.integer() ? Value::Int(*first.integer()) : first;
    case Kind::kAttribute:
      return GetAttribute(first, expr.name);
    case Kind::kRaise: {
      TANDEM_ASSIGN_OR_RETURN(const MarkedText message, first.Str());
      located_ = true;  // the template's own words, as they are
      return InvalidArgument("{}", message.text());
    }
    default:
      break;
  }
  TANDEM_ASSIGN_OR_RETURN(const Value second, Evaluate(*expr.args[1]));
  if (expr.kind == Kind::kItem) return GetItem(first, second, budget_);
  return Arithmetic(expr.name, first, second, budget_);
}

StatusOr<std::vector<Value>> Interpreter::EvaluateAll(const Expr& expr) {
  std::vector<Value> values;
  values.reserve(expr.args.size());
  for (const ExprPtr& arg : expr.args) {
    TANDEM_ASSIGN_OR_RETURN(Value value, Evaluate(*arg));
    values.push_back(std::move(value));
  }
  return values;
}

StatusOr<Value> Interpreter::EvaluateDict(const Expr& expr) {
  TANDEM_ASSIGN_OR_RETURN(std::vector<Value> values, EvaluateAll(expr));
  std::vector<std::pair<MarkedText, Value>> items;
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const MarkedText* key = values[i].string();
    if (key == nullptr) {
      return InvalidArgument("a dict's key of type {} is not supported", values[i].TypeName());
    }
    items.emplace_back(*key, std::move(values[i + 1]));
  }
  return Value::MakeDict(std::move(items));
}

StatusOr<Value> Interpreter::EvaluateCompare(const Expr& expr) {
  TANDEM_ASSIGN_OR_RETURN(Value left, Evaluate(*expr.args[0]));
  for (std::size_t i = 0; i < expr.operators.size(); ++i) {
    const std::string& op = expr.operators[i];
    TANDEM_ASSIGN_OR_RETURN(Value right, Evaluate(*expr.args[i + 1]));
    bool holds = false;
    if (op == "in" || op == "not in") {
      TANDEM_ASSIGN_OR_RETURN(const bool found, Contains(right, left, budget_));
      holds = found == (op == "in");
    } else if (op == "==" || op == "!=") {
      TANDEM_RETURN_IF_ERROR(budget_.Steps(std::min(left.parts(), right.parts())));
      holds = Value::Equal(left, right) == (op == "==");
    } else {
      TANDEM_ASSIGN_OR_RETURN(holds, Ordered(op, left, right));
    }
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

StatusOr<Value> Interpreter::EvaluateConcat(const Expr& expr) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Value> values, EvaluateAll(expr));
  MarkedText out;
  for (const Value& value : values) {
    TANDEM_RETURN_IF_ERROR(budget_.Steps(value.parts()));
    TANDEM_ASSIGN_OR_RETURN(const MarkedText text, value.Str());
    TANDEM_RETURN_IF_ERROR(budget_.Bytes(text.size()));
    out += text;
  }
  return Value::String(std::move(out));
}

StatusOr<Value> Interpreter::EvaluateSlice(const Expr& expr) {
  TANDEM_ASSIGN_OR_RETURN(const Value subject, Evaluate(*expr.args[0]));
  Value bounds[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (expr.args[i + 1] == nullptr) continue;
    TANDEM_ASSIGN_OR_RETURN(bounds[i], Evaluate(*expr.args[i + 1]));
  }
  return GetSlice(subject, bounds[0], bounds[1], bounds[2], budget_);
}

StatusOr<Value> Interpreter::EvaluateBuiltin(const Expr& expr) {
  std::vector<std::optional<Value>> arguments;
  for (const ExprPtr& arg : expr.args) {
    if (arg == nullptr) {
      arguments.emplace_back();
      continue;
    }
    TANDEM_ASSIGN_OR_RETURN(Value value, Evaluate(*arg));
    arguments.emplace_back(std::move(value));
  }
  if (expr.kind == Expr::Kind::kMethod && arguments[0]->is_undefined()) {
    return UndefinedError(*arguments[0]);
  }
  return expr.builtin->call(arguments, budget_);
}

StatusOr<Value> Interpreter::EvaluateRange(const Expr& expr) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Value> values, EvaluateAll(expr));
  for (const Value& value : values) {
    if (!value.integer()) return InvalidArgument("range of {}", value.TypeName());
  }
  const std::int64_t start = values.size() > 1 ? *values[0].integer() : 0;
  const std::int64_t stop = *values[values.size() > 1 ? 1 : 0].integer();
  const std::int64_t step = values.size() > 2 ? *values[2].integer() : 1;
  if (step == 0) return InvalidArgument("range with step 0");
  std::vector<Value> items;
  __int128 i = start;
  for (; step > 0 ? i < stop : i > stop; i += step) {
    if (static_cast<std::int64_t>(items.size()) >= kMaxRange) {
      return ResourceExhausted("range of more than {} numbers", kMaxRange);
    }
    items.push_back(Value::Int(static_cast<std::int64_t>(i)));
  }
  TANDEM_RETURN_IF_ERROR(budget_.Steps(items.size()));
  return Value::MakeList(std::move(items));
}

StatusOr<Value> Interpreter::EvaluateNamespace(const Expr& expr) {
  TANDEM_ASSIGN_OR_RETURN(std::vector<Value> values, EvaluateAll(expr));
  auto space = std::make_shared<Namespace>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    space->attributes[expr.names[i]] = std::move(values[i]);
  }
  namespaces_.push_back(space);
  return Value::Of(std::move(space));
}

StatusOr<Value> Interpreter::EvaluateMacro(const Expr& expr) {
  const auto found = macros_.find(expr.name);
  if (found == macros_.end()) return InvalidArgument("'{}' is undefined", expr.name);
  const Stmt& macro = *found->second;
  const std::vector<std::string>& parameters = macro.target.names;
  TANDEM_ASSIGN_OR_RETURN(std::vector<Value> values, EvaluateAll(expr));
  const std::size_t positional = values.size() - expr.names.size();
  if (positional > parameters.size()) {
    return InvalidArgument("macro '{}' takes {} arguments, not {}", macro.text, parameters.size(),
                           positional);
  }
  Scope scope;
  for (std::size_t i = 0; i < positional; ++i) scope[parameters[i]] = std::move(values[i]);
  for (std::size_t i = 0; i < expr.names.size(); ++i) {
    const bool known =
        std::find(parameters.begin(), parameters.end(), expr.names[i]) != parameters.end();
    if (!known || scope.contains(expr.names[i])) {
      return InvalidArgument("macro '{}' cannot take '{}'", macro.text, expr.names[i]);
    }
    scope[expr.names[i]] = std::move(values[positional + i]);
  }
  const std::size_t caller_base = std::exchange(base_, scopes_.size());
  const std::size_t first_default = parameters.size() - macro.defaults.size();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (scope.contains(parameters[i])) continue;
    if (i < first_default) {
      scope[parameters[i]] =
          Value::MakeUndefined(fmt::format("parameter '{}' was not provided", parameters[i]));
      continue;
    }
    scopes_.push_back(scope);  // a default may use the parameters before it
    TANDEM_ASSIGN_OR_RETURN(Value value, Evaluate(*macro.defaults[i - first_default]));
    scopes_.pop_back();
    scope[parameters[i]] = std::move(value);
  }
  TANDEM_ASSIGN_OR_RETURN(MarkedText text, Capture(macro.body, std::move(scope)));
  base_ = caller_base;
  return Value::String(std::move(text));
}

}  // namespace tandem::chat_template
