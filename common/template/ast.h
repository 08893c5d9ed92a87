// A parsed template. Built by the parser, which bounds its depth; never changed afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/template/builtins.h"
#include "common/template/value.h"

namespace tandem::chat_template {

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

struct Expr {
  enum class Kind : std::uint8_t {
    kConstant,    // constant
    kName,        // name
    kList,        // args
    kTuple,       // args
    kDict,        // args: key, value, key, value, …
    kNegate,      // args[0]
    kPlus,        // args[0]
    kNot,         // args[0]
    kAnd,         // args[0], args[1]
    kOr,          // args[0], args[1]
    kArithmetic,  // args[0] name args[1]; name is + - * / // % **
    kConcat,      // args, joined as text (~)
    kCompare,     // args[0] operators[0] args[1] operators[1] args[2] …
    kIf,          // args[0] if args[1] else args[2], which may be null
    kAttribute,   // args[0].name
    kItem,        // args[0][args[1]]
    kSlice,       // args[0][args[1]:args[2]:args[3]], all but the first may be null
    kFilter,      // args[0] | builtin(args[1]…)
    kTest,        // args[0] is builtin(args[1]…)
    kMethod,      // args[0].builtin(args[1]…)
    kRange,       // range(args…)
    kNamespace,   // namespace(names = args)
    kRaise,       // raise_exception(args[0])
    kMacroCall,   // name(args…, names = last args…)
  };

  Kind kind;
  int line = 0;
  int depth = 1;
  Value constant = {};
  std::string name = {};
  std::vector<ExprPtr> args = {};
  std::vector<std::string> names = {};      // kNamespace: of all args; kMacroCall: of the last ones
  std::vector<std::string> operators = {};  // kCompare: == != < <= > >= in, not in
  const Builtin* builtin =
      nullptr;  // kFilter, kTest, kMethod; args by its parameters, null where absent
};

struct Stmt;
using Block = std::vector<std::unique_ptr<const Stmt>>;

// What a `for` or `set` assigns to: one name, several, or an attribute of a namespace.
struct Target {
  std::vector<std::string> names;  // more than one: unpacks
  bool is_tuple = false;
  std::string attribute;  // names[0].attribute, if not empty
};

struct Stmt {
  enum class Kind : std::uint8_t {
    kText,      // text
    kOutput,    // expr
    kIf,        // branches, last
    kFor,       // target in expr if condition: body, else last
    kSet,       // target = expr
    kSetBlock,  // target = what body writes
    kScope,     // body, in a scope of its own
    kMacro,     // text(target.names, with defaults): body
    kBreak,
    kContinue,
  };
  struct Branch {
    ExprPtr condition;
    Block body;
  };

  Kind kind;
  int line = 0;
  std::string text;
  ExprPtr expr;
  ExprPtr condition;
  Target target;
  std::vector<ExprPtr> defaults;  // kMacro: of the last parameters
  std::vector<Branch> branches;
  Block body;
  Block last;
};

}  // namespace tandem::chat_template
