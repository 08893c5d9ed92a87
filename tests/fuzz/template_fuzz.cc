// Any template is compiled or refused with one error, and renders any conversation within its
// bounds.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/base/utf8.h"
#include "common/template/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  using namespace tandem::chat_template;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  auto chat = ChatTemplate::Compile(source);
  if (!chat.ok()) {
    TANDEM_CHECK(chat.status().message().size() < 2000 + source.size());
    return 0;
  }
  RenderInput input{.bos_token = "<s>", .eos_token = "</s>"};
  input.messages.push_back({.role = "system", .content = "Be brief."});
  input.messages.push_back({.role = "user", .content = " wörld 🚀\n"});
  input.messages.push_back({.role = "assistant"});
  input.tools.push_back(boost::json::object{{"name", "f"}, {"list", {1, 2.5, nullptr}}});
  auto text = chat->Render(input);
  if (!text.ok()) return 0;
  TANDEM_CHECK(!FindInvalidUtf8(text->text()));
  for (const MarkedText::Range& range : text->user_ranges()) {
    TANDEM_CHECK(range.begin < range.end && range.end <= text->size());
  }
  return 0;
}
