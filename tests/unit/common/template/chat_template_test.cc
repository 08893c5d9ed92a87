#include "common/template/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/formats/gguf.h"
#include "tests/testing/paths.h"

namespace tandem::chat_template {
namespace {

using ::testing::HasSubstr;

RenderInput UserSays(std::string content) {
  return {.messages = {{.role = "user", .content = std::move(content)}}, .bos_token = "<s>"};
}

MarkedText Render(std::string_view source, const RenderInput& input) {
  const auto chat = ChatTemplate::Compile(source);
  EXPECT_TRUE(chat.ok()) << chat.status();
  if (!chat.ok()) return {};
  auto text = chat->Render(input);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *std::move(text) : MarkedText();
}

Status RenderError(std::string_view source) {
  const auto chat = ChatTemplate::Compile(source);
  EXPECT_TRUE(chat.ok()) << chat.status();
  return chat.ok() ? chat->Render(UserSays("x")).status() : OkStatus();
}

// The text with the user's bytes in braces.
std::string Marked(const MarkedText& text) {
  std::string out;
  std::size_t pos = 0;
  for (const MarkedText::Range& range : text.user_ranges()) {
    out += text.text().substr(pos, range.begin - pos) + "{" +
           text.text().substr(range.begin, range.end - range.begin) + "}";
    pos = range.end;
  }
  return out + text.text().substr(pos);
}

TEST(ChatTemplateTest, MarksSurviveOperatorsSlicesAndFilters) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ 'a' + m + 'b' }}", "a{ Xy,z }b"},
      {"{{ bos_token ~ m ~ 1 }}", "<s>{ Xy,z }1"},
      {"{{ ('a' + m)[1:4] + 'c' }}", "{ Xy}c"},
      {"{{ ('a' + m)[::-1] }}", "{ z,yX }a"},
      {"{{ m | trim + '.' }}", "{Xy,z}."},
      {"{{ 'q' ~ m | upper ~ 'q' }}", "q{ XY,Z }q"},
      {"{{ ('a' + m).split(',')[1] + 'b' }}", "{z }b"},
      {"{{ m.strip().replace('y', '-') }}", "{X}-{,z}"},
      {"{{ m | tojson }}", "{\" Xy,z \"}"},
      {"{{ ['a', 'b'] | tojson }}", "[\"a\", \"b\"]"},
      {"{{ [m, 'b'] | join('+') }}", "{ Xy,z }+b"},
      {"{{ m if m else 'none' }}", "{ Xy,z }"},
      {"{% set x %}a{{ m }}{% endset %}{{ x }}", "a{ Xy,z }"},
      {"{% macro f(t) %}<{{ t }}>{% endmacro %}{{ f(m) }}", "<{ Xy,z }>"},
      {"{% set ns = namespace(t='') %}{% set ns.t = ns.t + m %}{{ ns.t }}", "{ Xy,z }"},
      {"{% for c in m.strip() %}{{ c }};{% endfor %}", "{X};{y};{,};{z};"},
      {"{{ messages[0].role }}", "{user}"},
  };
  for (const auto& [body, expected] : cases) {
    const std::string source = "{% set m = messages[0].content %}" + std::string(body);
    EXPECT_EQ(Marked(Render(source, UserSays(" Xy,z "))), expected) << body;
  }
}

TEST(ChatTemplateTest, RefusesByNameAndLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"\n\n{{ x | selectattr('a') }}", "unsupported filter 'selectattr' at line 3"},
      {"{{ x is sameas y }}", "unsupported test 'sameas' at line 1"},
      {"{{ x.append(1) }}", "unsupported method 'append' at line 1"},
      {"\n{% include 'a' %}", "unsupported statement 'include' at line 2"},
      {"{% import 'a' as b %}", "unsupported statement 'import'"},
      {"{% raw %}{{{% endraw %}", "unsupported statement 'raw'"},
      {"{{ strftime_now('%Y') }}", "unsupported function 'strftime_now' at line 1"},
      {"{{ nosuch(1) }}", "unsupported function 'nosuch' at line 1"},
      {"{{ x.items }}", "unsupported attribute 'items' at line 1"},
      {"{{ x.__class__ }}", "unsupported attribute '__class__' at line 1"},
      {"{{ x[0](1) }}", "unsupported call of an expression at line 1"},
      {"{{ 2 ** 3 }}", "unsupported operator '**' at line 1"},
      {"{% for a in b recursive %}{% endfor %}", "unsupported 'recursive' in 'for'"},
      {"{{ loop.cycle('a') }}", "unsupported method 'cycle'"},
      {"{{ x | tojson(sort_keys=true) }}", "unsupported argument 'sort_keys' of filter 'tojson'"},
      {"{% if x %}", "no 'endif'"},
      {"{{ x", "no '}}'"},
      {"{{ 'x }}", "string without end"},
      {"{# x", "comment without end"},
      {"{{ (1 }}", "unexpected '}'"},
      {"{% break %}", "'break' outside a loop"},
      {"{{ }}", "unexpected ''"},
  };
  for (const auto& [source, message] : cases) {
    const auto chat = ChatTemplate::Compile(source);
    EXPECT_EQ(chat.status().code(), absl::StatusCode::kInvalidArgument) << source;
    EXPECT_THAT(std::string(chat.status().message()), HasSubstr(message)) << source;
  }
}

TEST(ChatTemplateTest, RaiseExceptionIsTheError) {
  const Status status =
      RenderError("{% if messages %}{{ raise_exception('Only system ' ~ 1) }}{% endif %}");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()), "Only system 1");
}

TEST(ChatTemplateTest, ErrorsSayTheLine) {
  EXPECT_EQ(std::string(RenderError("\n{{ a.b }}").message()),
            "chat template, line 2: 'a' is undefined");
  EXPECT_THAT(std::string(RenderError("\n\n{{ 'a' + 1 }}").message()), HasSubstr("line 3"));
}

TEST(ChatTemplateTest, InvalidUtf8IsRefused) {
  const auto chat = ChatTemplate::Compile("{{ messages[0].content }}");
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->Render(UserSays("a\xFF")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(ChatTemplate::Compile("a\xFF").ok());
}

TEST(ChatTemplateTest, EverythingIsBounded) {
  const char* const bombs[] = {
      "{% set ns = namespace(s='ab') %}{% for i in range(90) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}",
      "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
      "{{ range(1000000000) }}",
      "{{ 'a' * 10000000000 }}{{ [1] * 1000000000 }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(200) %}{% set ns.l = [ns.l] %}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% "
      "endfor %}{{ ns.l }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% "
      "endfor %}",
      "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
      "{% macro f(x) %}{% for i in [1] %}{% if true %}{{ [[(f(x) ~ 'a') | trim]] }}{% endif %}{% "
      "endfor %}{% endmacro %}{{ f(1) }}",
      "{% for i in range(99999) %}{{ 'aaaaaaaaaaaaaaaaaaaa' * 1000 }}{% endfor %}",
  };
  for (const char* bomb : bombs) {
    EXPECT_EQ(RenderError(bomb).code(), absl::StatusCode::kResourceExhausted) << bomb;
  }
  for (const char* open : {"(", "[", "not ", "-", "{'a':", "x if "}) {
    std::string source = "{{ ";
    for (int i = 0; i < 10000; ++i) source += open;
    EXPECT_FALSE(ChatTemplate::Compile(source).ok());
  }
  std::string chain = "{{ 1";
  for (int i = 0; i < 10000; ++i) chain += " + 1";
  EXPECT_FALSE(ChatTemplate::Compile(chain + " }}").ok());
  std::string blocks;
  for (int i = 0; i < 10000; ++i) blocks += "{% if 1 %}";
  EXPECT_FALSE(ChatTemplate::Compile(blocks).ok());
}

TEST(ChatTemplateTest, NamespacesInACircleAreFreed) {
  EXPECT_EQ(Render("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = [b] %}"
                   "{{ a.b[0].a == a }}",
                   UserSays("x"))
                .text(),
            "True");
}

TEST(ChatTemplateTest, SmolLm2AddsASystemMessageOfItsOwn) {
  const auto path = testing::SmolLm2Path();
  if (!path) GTEST_SKIP() << "the SmolLM2 file is not in the model cache";
  const auto file = formats::GgufFile::Open(*path);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto source = file->metadata().GetString("tokenizer.chat_template");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(Marked(Render(*source, UserSays("What is the capital of France?"))),
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<|im_end|>\n<|im_start|>{user}\n{What is the capital of France?}<|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST(ChatTemplateTest, Qwen25ListsToolsAndCalls) {
  const auto path = testing::SharedPath("templates/Qwen-Qwen2.5-7B-Instruct.jinja");
  if (!path) GTEST_SKIP() << "templates/ is not beside the repository";
  const auto file = formats::MappedFile::Open(*path);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string_view source(reinterpret_cast<const char*>(file->bytes().data()),
                                file->bytes().size());
  RenderInput input = UserSays("Hi");
  input.tools.push_back(boost::json::object{{"name", "f"}});
  input.messages.push_back(
      {.role = "assistant",
       .fields = {
           {"tool_calls",
            boost::json::array{boost::json::object{
                {"function", boost::json::object{{"name", "f"}, {"arguments", {{"x", 1}}}}}}}}}});
  input.messages.push_back({.role = "tool", .content = "42"});
  const std::string text = Render(source, input).text();
  EXPECT_THAT(text, HasSubstr("<tools>\n{\"name\": \"f\"}\n</tools>"));
  EXPECT_THAT(text,
              HasSubstr("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>"));
  EXPECT_THAT(text,
              HasSubstr("<|im_start|>user\n<tool_response>\n42\n</tool_response><|im_end|>\n"));
}

}  // namespace
}  // namespace tandem::chat_template
