#include "common/template/chat_template.h"

#include <utility>

#include "common/base/utf8.h"
#include "common/template/interpreter.h"
#include "common/template/parser.h"

namespace tandem::chat_template {
namespace {

constexpr std::uint64_t kMaxSteps = 2'000'000;
constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kBytesPerInputByte = 64;

Status CheckUtf8(std::string_view what, std::string_view text) {
  auto bad = FindInvalidUtf8(text);
  return bad ? InvalidArgument("{} is not UTF-8 at byte {}", what, *bad) : OkStatus();
}

using Items = std::vector<std::pair<MarkedText, Value>>;

StatusOr<Value> ToValue(const Message& message) {
  TANDEM_RETURN_IF_ERROR(CheckUtf8("a message's role", message.role));
  Items items;
  items.emplace_back(MarkedText::Trusted("role"),
                     Value::String(MarkedText::FromUser(message.role)));
  Value content;
  if (message.content) {
    TANDEM_RETURN_IF_ERROR(CheckUtf8("a message's content", *message.content));
    content = Value::String(MarkedText::FromUser(*message.content));
  }
  items.emplace_back(MarkedText::Trusted("content"), std::move(content));
  for (const auto& [key, field] : message.fields) {
    TANDEM_ASSIGN_OR_RETURN(Value value, Value::FromUserJson(field));
    items.emplace_back(MarkedText::FromUser(std::string(key.data(), key.size())), std::move(value));
  }
  return Value::MakeDict(std::move(items));
}

StatusOr<Interpreter::Scope> ToScope(const RenderInput& input) {
  Interpreter::Scope scope;
  for (const auto& [key, variable] : input.variables) {
    TANDEM_ASSIGN_OR_RETURN(scope[std::string(key.data(), key.size())],
                            Value::FromUserJson(variable));
  }
  std::vector<Value> messages;
  for (const Message& message : input.messages) {
    TANDEM_ASSIGN_OR_RETURN(Value value, ToValue(message));
    messages.push_back(std::move(value));
  }
  TANDEM_ASSIGN_OR_RETURN(scope["messages"], Value::MakeList(std::move(messages)));
  scope["tools"] = Value();
  if (!input.tools.empty()) {
    TANDEM_ASSIGN_OR_RETURN(scope["tools"], Value::FromUserJson(input.tools));
  }
  scope["add_generation_prompt"] = Value::Bool(input.add_generation_prompt);
  scope["bos_token"] = Value::Trusted(input.bos_token);
  scope["eos_token"] = Value::Trusted(input.eos_token);
  return scope;
}

std::uint64_t InputBytes(const RenderInput& input) {
  std::uint64_t bytes = 0;
  for (const Message& message : input.messages) bytes += message.content.value_or("").size();
  return bytes;
}

}  // namespace

struct ChatTemplate::Impl {
  Block block;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

StatusOr<ChatTemplate> ChatTemplate::Compile(std::string_view source) {
  TANDEM_ASSIGN_OR_RETURN(Block block, Parse(source));
  auto impl = std::make_unique<Impl>();
  impl->block = std::move(block);
  return ChatTemplate(std::move(impl));
}

StatusOr<MarkedText> ChatTemplate::Render(const RenderInput& input) const {
  TANDEM_ASSIGN_OR_RETURN(Interpreter::Scope scope, ToScope(input));
  const Budget budget(kMaxSteps, kMaxBytes + InputBytes(input) * kBytesPerInputByte);
  return Interpreter(std::move(scope), budget).Run(impl_->block);
}

}  // namespace tandem::chat_template
