#include "common/template/interpreter.h"

#include <utility>

#include "common/template/operations.h"

namespace tandem::chat_template {
namespace {


}  // namespace

Interpreter::Interpreter(Scope variables, const Budget& budget) : budget_(budget) {
  scopes_.push_back(std::move(variables));
}

Interpreter::~Interpreter() {
  scopes_.clear();
  // Namespaces may refer to one another in circles; none is destroyed before all are empty.
  for (const auto& space : namespaces_) space->attributes.clear();
}

StatusOr<MarkedText> Interpreter::Run(const Block& block) {
  MarkedText out;
  out_ = &out;
  TANDEM_RETURN_IF_ERROR(Execute(block).status());
  return out;
}

Status Interpreter::At(int line, const Status& status) {
  if (located_) return status;
  located_ = true;
  return Annotate(status, fmt::format("chat template, line {}", line));
}

StatusOr<Interpreter::Flow> Interpreter::Execute(const Block& block) {
  for (const auto& stmt : block) {
    if (Status status = budget_.Steps(1); !status.ok()) return At(stmt->line, status);
    if (++depth_ > kMaxDepth) {
      return At(stmt->line, ResourceExhausted("nested deeper than {}", kMaxDepth));
    }
    auto flow = ExecuteOne(*stmt);
    --depth_;
    if (!flow.ok()) return At(stmt->line, flow.status());
    if (*flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

StatusOr<Interpreter::Flow> Interpreter::ExecuteOne(const Stmt& stmt) {
  switch (stmt.kind) {
    case Stmt::Kind::kText:
      TANDEM_RETURN_IF_ERROR(budget_.Bytes(stmt.text.size()));
      *out_ += MarkedText::Trusted(stmt.text);
      return Flow::kNext;
    case Stmt::Kind::kOutput: {
      TANDEM_ASSIGN_OR_RETURN(const Value value, Evaluate(*stmt.expr));
      TANDEM_RETURN_IF_ERROR(Write(value));
      return Flow::kNext;
    }
    case Stmt::Kind::kIf:
      return ExecuteIf(stmt);
    case Stmt::Kind::kFor:
      return ExecuteFor(stmt);
    case Stmt::Kind::kSet: {
      TANDEM_ASSIGN_OR_RETURN(Value value, Evaluate(*stmt.expr));
      TANDEM_RETURN_IF_ERROR(Assign(stmt.target, std::move(value)));
      return Flow::kNext;
    }
    case Stmt::Kind::kSetBlock: {
      TANDEM_ASSIGN_OR_RETURN(MarkedText text, Capture(stmt.body, {}));
      TANDEM_RETURN_IF_ERROR(Assign(stmt.target, Value::String(std::move(text))));
      return Flow::kNext;
    }
    case Stmt::Kind::kScope: {
      TANDEM_ASSIGN_OR_RETURN(const MarkedText text, Capture(stmt.body, {}));
      *out_ += text;
      return Flow::kNext;
    }
    case Stmt::Kind::kMacro:
      macros_[stmt.text] = &stmt;
      return Flow::kNext;
    case Stmt::Kind::kBreak:
      return Flow::kBreak;
    case Stmt::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

StatusOr<Interpreter::Flow> Interpreter::ExecuteIf(const Stmt& stmt) {
  for (const Stmt::Branch& branch : stmt.branches) {
    TANDEM_ASSIGN_OR_RETURN(const Value condition, Evaluate(*branch.condition));
    if (condition.Truthy()) return Execute(branch.body);
  }
  return Execute(stmt.last);
}

StatusOr<std::shared_ptr<const List>> Interpreter::LoopItems(const Stmt& stmt) {
  TANDEM_ASSIGN_OR_RETURN(const Value iterable, Evaluate(*stmt.expr));
  TANDEM_ASSIGN_OR_RETURN(auto items, Iterate(iterable, budget_));
  if (stmt.condition == nullptr) return items;
  auto kept = std::make_shared<List>();
  for (const Value& item : items->items) {
    scopes_.emplace_back();
    TANDEM_RETURN_IF_ERROR(Assign(stmt.target, item));
    TANDEM_ASSIGN_OR_RETURN(const Value condition, Evaluate(*stmt.condition));
    scopes_.pop_back();
    if (condition.Truthy()) kept->items.push_back(item);
  }
  return std::shared_ptr<const List>(std::move(kept));
}

StatusOr<Interpreter::Flow> Interpreter::ExecuteFor(const Stmt& stmt) {
  TANDEM_ASSIGN_OR_RETURN(const auto items, LoopItems(stmt));
  if (items->items.empty()) {
    scopes_.emplace_back();
    auto flow = Execute(stmt.last);
    scopes_.pop_back();
    return flow;
  }
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    TANDEM_RETURN_IF_ERROR(budget_.Steps(1));
    scopes_.emplace_back();
    TANDEM_RETURN_IF_ERROR(Assign(stmt.target, items->items[i]));
    scopes_.back()["loop"] =
        Value::Of(std::make_shared<const LoopState>(LoopState{.items = items, .index0 = i}));
    TANDEM_ASSIGN_OR_RETURN(const Flow flow, Execute(stmt.body));
    scopes_.pop_back();
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

StatusOr<MarkedText> Interpreter::Capture(const Block& block, Scope scope) {
  MarkedText text;
  MarkedText* const outer = std::exchange(out_, &text);
  scopes_.push_back(std::move(scope));
  TANDEM_RETURN_IF_ERROR(Execute(block).status());
  scopes_.pop_back();
  out_ = outer;
  TANDEM_RETURN_IF_ERROR(budget_.Bytes(text.size()));
  return text;
}

Status Interpreter::Write(const Value& value) {
  if (const MarkedText* text = value.string()) {
    TANDEM_RETURN_IF_ERROR(budget_.Bytes(text->size()));
    *out_ += *text;
    return OkStatus();
  }
  TANDEM_RETURN_IF_ERROR(budget_.Steps(value.parts()));
  TANDEM_ASSIGN_OR_RETURN(const MarkedText text, value.Str());
  TANDEM_RETURN_IF_ERROR(budget_.Bytes(text.size()));
  *out_ += text;
  return OkStatus();
}

Status Interpreter::Assign(const Target& target, Value value) {
  if (!target.attribute.empty()) {
    const Value subject = Lookup(target.names[0]);
    Namespace* space = subject.name_space();
    if (space == nullptr) {
      return InvalidArgument("cannot set '{}' of '{}', which is no namespace", target.attribute,
                             target.names[0]);
    }
    space->attributes[target.attribute] = std::move(value);
    return OkStatus();
  }
  if (!target.is_tuple) {
    scopes_.back()[target.names[0]] = std::move(value);
    return OkStatus();
  }
  const auto list = value.list();
  if (list == nullptr || list->items.size() != target.names.size()) {
    return InvalidArgument("cannot unpack {} into {} names", value.TypeName(), target.names.size());
  }
  for (std::size_t i = 0; i < target.names.size(); ++i) {
    scopes_.back()[target.names[i]] = list->items[i];
  }
  return OkStatus();
}

Value Interpreter::Lookup(const std::string& name) const {
  for (std::size_t i = scopes_.size(); i-- > base_;) {
    if (auto it = scopes_[i].find(name); it != scopes_[i].end()) return it->second;
  }
  if (auto it = scopes_[0].find(name); it != scopes_[0].end()) return it->second;
  return Value::MakeUndefined(fmt::format("'{}' is undefined", name));
}

}  // namespace tandem::chat_template
