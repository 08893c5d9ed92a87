// Runs a parsed template: one object for one rendering.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/marked_text.h"
#include "common/base/status.h"
#include "common/template/ast.h"
#include "common/template/builtins.h"

namespace tandem::chat_template {

// Of statements, expressions and macros within one another, while they run.
inline constexpr int kMaxDepth = 700;

// Scopes are Jinja's: each turn of a loop has its own, `if` has none, a macro sees its own and the
// template's. Not thread-safe.
class Interpreter {
 public:
  using Scope = std::map<std::string, Value, std::less<>>;

  Interpreter(Scope variables, const Budget& budget);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Requires: called once.
  // Errors: InvalidArgument with the line, or raise_exception's message; ResourceExhausted over a
  // bound.
  StatusOr<MarkedText> Run(const Block& block);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  StatusOr<Flow> Execute(const Block& block);
  StatusOr<Flow> ExecuteOne(const Stmt& stmt);
  StatusOr<Flow> ExecuteIf(const Stmt& stmt);
  StatusOr<Flow> ExecuteFor(const Stmt& stmt);
  StatusOr<std::shared_ptr<const List>> LoopItems(const Stmt& stmt);
  // Runs `block` in a scope of its own; what it writes is the result.
  StatusOr<MarkedText> Capture(const Block& block, Scope scope);
  Status Write(const Value& value);
  Status Assign(const Target& target, Value value);

  StatusOr<Value> Evaluate(const Expr& expr);
  StatusOr<Value> EvaluateKind(const Expr& expr);
  StatusOr<std::vector<Value>> EvaluateAll(const Expr& expr);
  StatusOr<Value> EvaluateDict(const Expr& expr);
  StatusOr<Value> EvaluateCompare(const Expr& expr);
  StatusOr<Value> EvaluateConcat(const Expr& expr);
  StatusOr<Value> EvaluateSlice(const Expr& expr);
  StatusOr<Value> EvaluateBuiltin(const Expr& expr);
  StatusOr<Value> EvaluateRange(const Expr& expr);
  StatusOr<Value> EvaluateNamespace(const Expr& expr);
  StatusOr<Value> EvaluateMacro(const Expr& expr);
  Value Lookup(const std::string& name) const;
  // Puts the line before the first error's message, and before no later one.
  Status At(int line, const Status& status);

  Budget budget_;
  std::vector<Scope> scopes_;  // [0] is the template's
  std::size_t base_ = 0;       // the running macro's first scope; 0 outside macros
  std::map<std::string, const Stmt*, std::less<>> macros_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;  // all of them: they may hold one another
  MarkedText* out_ = nullptr;
  int depth_ = 0;
  bool located_ = false;  // the error has its line
};

}  // namespace tandem::chat_template
