// Renders a conversation into a model's prompt with the model's own chat template.
//
// The language is a subset of Jinja2 with trim_blocks and lstrip_blocks and the trailing newline
// dropped: what it accepts, it renders as Jinja2 does. A construct that it does not know is refused
// by Compile, by name and line. Marks survive: bytes of messages, tools and variables stay FromUser
// through concatenation, slices and filters, bytes that the template writes are Trusted.
//
//   auto chat = ChatTemplate::Compile(source);
//   auto prompt = chat->Render({.messages = {{.role = "user", .content = "Hi"}}});
//   auto ids = tokenizer.Encode(*prompt, {.parse_special = true});
//
// Immutable and thread-safe once compiled. Rendering is bounded in steps, bytes and depth.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/marked_text.h"
#include "common/base/status.h"

namespace tandem::chat_template {

struct Message {
  std::string role = {};
  std::optional<std::string> content = {};  // none in the template when absent
  boost::json::object fields = {};          // further keys: name, tool_calls, tool_call_id, …
};

struct RenderInput {
  std::vector<Message> messages = {};
  bool add_generation_prompt = true;
  std::string bos_token = {};  // text of the tokenizer's bos; empty without one
  std::string eos_token = {};
  boost::json::array tools = {};       // `tools` is none in the template when empty
  boost::json::object variables = {};  // further variables: enable_thinking, …
};

class ChatTemplate {
 public:
  // Errors: InvalidArgument with the construct and its line: "unsupported filter 'selectattr' at
  // line 12".
  static StatusOr<ChatTemplate> Compile(std::string_view source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Errors: InvalidArgument with the template's own message (raise_exception) or the line of a bad
  // operation; ResourceExhausted over the bounds.
  StatusOr<MarkedText> Render(const RenderInput& input) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<const Impl> impl);

  std::unique_ptr<const Impl> impl_;
};

}  // namespace tandem::chat_template
