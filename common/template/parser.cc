#include "common/template/parser.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "common/template/expression_parser.h"

namespace tandem::chat_template {
namespace {

constexpr int kMaxBlockDepth = 60;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : in_(std::move(tokens)) {}

  StatusOr<Block> Run() {
    TANDEM_ASSIGN_OR_RETURN(Block block, Body({}));
    for (const auto& [name, line] : in_.called()) {
      if (!macros_.contains(name)) {
        return in_.Unsupported(fmt::format("function '{}'", name), line);
      }
    }
    for (const auto& [name, line] : in_.read()) {
      if (macros_.contains(name)) {
        return in_.Unsupported(fmt::format("use of macro '{}' without a call", name), line);
      }
    }
    return block;
  }

 private:
  using Names = std::vector<std::string_view>;
  using StmtPtr = std::unique_ptr<const Stmt>;

  // Statements up to one of the tags `ends`, whose name is left to be read; without `ends`, to the
  // end of the template.
  StatusOr<Block> Body(const Names& ends) {
    const int start = in_.Peek().line;
    if (++depth_ > kMaxBlockDepth) {
      return in_.Error(fmt::format("blocks nested deeper than {}", kMaxBlockDepth), start);
    }
    Block block;
    while (true) {
      const Token& token = in_.Peek();
      if (token.type == TokenType::kEnd) {
        if (!ends.empty())
          return in_.Error(fmt::format("no '{}' for the block", ends.back()), start);
        break;
      }
      auto stmt = std::make_unique<Stmt>();
      stmt->line = token.line;
      if (token.type == TokenType::kData) {
        stmt->kind = Stmt::Kind::kText;
        stmt->text = in_.Next().text;
      } else if (token.type == TokenType::kVariableBegin) {
        in_.Next();
        stmt->kind = Stmt::Kind::kOutput;
        TANDEM_ASSIGN_OR_RETURN(stmt->expr, in_.TupleOrExpression());
        TANDEM_RETURN_IF_ERROR(End(TokenType::kVariableEnd));
      } else {
        in_.Next();  // {%
        if (std::any_of(ends.begin(), ends.end(), [&](auto e) { return in_.IsName(e); })) break;
        TANDEM_RETURN_IF_ERROR(Statement(*stmt));
      }
      block.push_back(std::move(stmt));
    }
    --depth_;
    return block;
  }

  Status End(TokenType type) {
    if (in_.Peek().type == type) {
      in_.Next();
      return OkStatus();
    }
    return in_.Error(fmt::format("expected the end of the tag before '{}'", in_.Peek().text),
                     in_.Peek().line);
  }
  Status EndBlock() { return End(TokenType::kBlockEnd); }
  // The name of the end tag that Body stopped at, and its end.
  Status EndTag() {
    in_.Next();
    return EndBlock();
  }

  Status Statement(Stmt& stmt) {
    TANDEM_ASSIGN_OR_RETURN(const std::string tag, in_.ExpectName());
    if (tag == "if") return If(stmt);
    if (tag == "for") return For(stmt);
    if (tag == "set") return Set(stmt);
    if (tag == "macro") return Macro(stmt);
    if (tag == "generation") {
      stmt.kind = Stmt::Kind::kScope;
      TANDEM_RETURN_IF_ERROR(EndBlock());
      TANDEM_ASSIGN_OR_RETURN(stmt.body, Body({"endgeneration"}));
      return EndTag();
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) return in_.Error(fmt::format("'{}' outside a loop", tag), stmt.line);
      stmt.kind = tag == "break" ? Stmt::Kind::kBreak : Stmt::Kind::kContinue;
      return EndBlock();
    }
    return in_.Unsupported(fmt::format("statement '{}'", tag), stmt.line);
  }

  Status If(Stmt& stmt) {
    stmt.kind = Stmt::Kind::kIf;
    while (true) {
      Stmt::Branch branch;
      TANDEM_ASSIGN_OR_RETURN(branch.condition, in_.TupleOrExpression());
      TANDEM_RETURN_IF_ERROR(EndBlock());
      TANDEM_ASSIGN_OR_RETURN(branch.body, Body({"elif", "else", "endif"}));
      stmt.branches.push_back(std::move(branch));
      if (!in_.TakeName("elif")) break;
    }
    if (in_.TakeName("else")) {
      TANDEM_RETURN_IF_ERROR(EndBlock());
      TANDEM_ASSIGN_OR_RETURN(stmt.last, Body({"endif"}));
    }
    return EndTag();
  }

  // `name`, `(a, b)`, `a, b`, and with `attribute` also `space.name`.
  StatusOr<Target> ParseTarget(bool attribute) {
    Target target;
    const bool parenthesis = in_.TakeOperator("(");
    do {
      if (parenthesis && in_.IsOperator(")")) break;
      if (target.is_tuple && (in_.IsName("in") || in_.IsOperator("="))) break;
      const int line = in_.Peek().line;
      TANDEM_ASSIGN_OR_RETURN(std::string name, in_.ExpectName());
      constexpr std::array<std::string_view, 12> kReserved = {
          "true", "false", "none", "True", "False", "None", "not", "and", "or", "loop", "in", "is"};
      if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end()) {
        return in_.Error(fmt::format("cannot assign to '{}'", name), line);
      }
      target.names.push_back(std::move(name));
      if (attribute && target.names.size() == 1 && in_.TakeOperator(".")) {
        TANDEM_ASSIGN_OR_RETURN(target.attribute, in_.ExpectName());
        return target;
      }
      if (in_.IsOperator(",")) target.is_tuple = true;
    } while (in_.TakeOperator(","));
    if (parenthesis) TANDEM_RETURN_IF_ERROR(in_.Expect(")"));
    return target;
  }

  Status For(Stmt& stmt) {
    stmt.kind = Stmt::Kind::kFor;
    TANDEM_ASSIGN_OR_RETURN(stmt.target, ParseTarget(false));
    if (!in_.TakeName("in")) return in_.Error("'for' without 'in'", stmt.line);
    TANDEM_ASSIGN_OR_RETURN(stmt.expr, in_.Expression(false));
    if (in_.IsOperator(","))
      return in_.Unsupported("tuple without parentheses in 'for'", stmt.line);
    if (in_.TakeName("if")) {
      TANDEM_ASSIGN_OR_RETURN(stmt.condition, in_.Expression());
    }
    if (in_.IsName("recursive")) return in_.Unsupported("'recursive' in 'for'", stmt.line);
    TANDEM_RETURN_IF_ERROR(EndBlock());
    ++loops_;
    TANDEM_ASSIGN_OR_RETURN(stmt.body, Body({"else", "endfor"}));
    --loops_;
    if (in_.TakeName("else")) {
      TANDEM_RETURN_IF_ERROR(EndBlock());
      TANDEM_ASSIGN_OR_RETURN(stmt.last, Body({"endfor"}));
    }
    return EndTag();
  }

  Status Set(Stmt& stmt) {
    TANDEM_ASSIGN_OR_RETURN(stmt.target, ParseTarget(true));
    if (in_.TakeOperator("=")) {
      stmt.kind = Stmt::Kind::kSet;
      TANDEM_ASSIGN_OR_RETURN(stmt.expr, in_.TupleOrExpression());
      return EndBlock();
    }
    if (in_.IsOperator("|")) return in_.Unsupported("filter of a 'set' block", stmt.line);
    if (stmt.target.is_tuple) return in_.Error("'set' block with several names", stmt.line);
    stmt.kind = Stmt::Kind::kSetBlock;
    TANDEM_RETURN_IF_ERROR(EndBlock());
    TANDEM_ASSIGN_OR_RETURN(stmt.body, Body({"endset"}));
    return EndTag();
  }

  Status Macro(Stmt& stmt) {
    stmt.kind = Stmt::Kind::kMacro;
    // Inside a block a macro would see that block's variables, here it sees only the template's.
    if (depth_ > 1) return in_.Unsupported("'macro' inside another block", stmt.line);
    TANDEM_ASSIGN_OR_RETURN(stmt.text, in_.ExpectName());
    TANDEM_RETURN_IF_ERROR(in_.Expect("("));
    while (!in_.IsOperator(")")) {
      TANDEM_ASSIGN_OR_RETURN(std::string name, in_.ExpectName());
      stmt.target.names.push_back(std::move(name));
      if (in_.TakeOperator("=")) {
        TANDEM_ASSIGN_OR_RETURN(ExprPtr value, in_.Expression());
        stmt.defaults.push_back(std::move(value));
      } else if (!stmt.defaults.empty()) {
        return in_.Error("parameter without a default behind one with", stmt.line);
      }
      if (!in_.TakeOperator(",")) break;
    }
    TANDEM_RETURN_IF_ERROR(in_.Expect(")"));
    TANDEM_RETURN_IF_ERROR(EndBlock());
    if (!macros_.insert(stmt.text).second) {
      return in_.Unsupported(fmt::format("second definition of macro '{}'", stmt.text), stmt.line);
    }
    const int loops = std::exchange(loops_, 0);
    TANDEM_ASSIGN_OR_RETURN(stmt.body, Body({"endmacro"}));
    loops_ = loops;
    return EndTag();
  }

  ExpressionParser in_;
  int depth_ = 0;
  int loops_ = 0;
  std::set<std::string> macros_;
};

}  // namespace

StatusOr<Block> Parse(std::string_view source) {
  TANDEM_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace tandem::chat_template
