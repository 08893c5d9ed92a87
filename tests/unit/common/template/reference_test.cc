// Templates against what Jinja2 made of them (reference/make_reference.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "common/template/chat_template.h"
#include "tests/testing/paths.h"

namespace tandem::chat_template {
namespace {

namespace json = boost::json;

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string ToString(const json::value& value) {
  return std::string(value.as_string().data(), value.as_string().size());
}

RenderInput ToInput(const json::object& conversation) {
  RenderInput input{.bos_token = "<s>", .eos_token = "</s>"};
  for (const auto& [key, value] : conversation) {
    if (key == "messages") {
      for (const json::value& item : value.as_array()) {
        Message message;
        for (const auto& [name, field] : item.as_object()) {
          if (name == "role") {
            message.role = ToString(field);
          } else if (name == "content") {
            if (!field.is_null()) message.content = ToString(field);
          } else {
            message.fields[name] = field;
          }
        }
        input.messages.push_back(std::move(message));
      }
    } else if (key == "tools") {
      input.tools = value.as_array();
    } else if (key == "add_generation_prompt") {
      input.add_generation_prompt = value.as_bool();
    } else {
      input.variables[key] = value;
    }
  }
  return input;
}

// Not strict: a template may be refused, and a rendering fail, where Jinja2 goes on; what it
// renders must be equal.
void CheckReference(const json::value& reference, bool strict) {
  int rendered = 0;
  for (const json::value& one : reference.at("cases").as_array()) {
    const json::object& a_case = one.as_object();
    const bool is_path = a_case.contains("path");
    const std::string source =
        is_path ? ReadAll(ToString(a_case.at("path"))) : ToString(a_case.at("template"));
    const std::string name = is_path ? ToString(a_case.at("path")) : source;
    const auto chat = ChatTemplate::Compile(source);
    if (!chat.ok() && !strict) {
      std::cout << name << ": refused: " << chat.status().message() << "\n";
      continue;
    }
    ASSERT_TRUE(chat.ok()) << name << "\n" << chat.status();
    for (const auto& [conversation, result] : a_case.at("results").as_object()) {
      const auto& input = reference.at("conversations").at(conversation).as_object();
      const auto text = chat->Render(ToInput(input));
      ++rendered;
      if (result.as_object().contains("error")) {
        EXPECT_FALSE(text.ok()) << name << "\n" << conversation << "\n" << text->text();
        continue;
      }
      if (!text.ok() && !strict) {
        std::cout << name << ", " << std::string(conversation) << ": " << text.status().message()
                  << "\n";
        continue;
      }
      ASSERT_TRUE(text.ok()) << name << "\n" << conversation << "\n" << text.status();
      EXPECT_EQ(text->text(), ToString(result.at("text"))) << name << "\n" << conversation;
    }
  }
  std::cout << rendered << " renderings compared\n";
  EXPECT_GT(rendered, 0);
}

TEST(ReferenceTest, RendersAsJinja2Does) {
  const std::string path =
      testing::SourcePath("tests/unit/common/template/reference/reference.json");
  CheckReference(json::parse(ReadAll(path)), true);
  // For comparing further templates: make_reference.py FILE… > X.json;
  // TANDEM_TEMPLATE_REFERENCE=X.json.
  const char* further = std::getenv("TANDEM_TEMPLATE_REFERENCE");
  if (further != nullptr) CheckReference(json::parse(ReadAll(further)), false);
}

// What Compile says to each published template; none may crash it.
TEST(PublishedTemplatesTest, CompileOrAreRefusedByName) {
  const auto folder = testing::SharedPath("templates");
  if (!folder) GTEST_SKIP() << "templates/ is not beside the repository";
  int compiled = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    if (entry.path().extension() != ".jinja") continue;
    const auto chat = ChatTemplate::Compile(ReadAll(entry.path().string()));
    std::cout << entry.path().filename().string() << ": "
              << (chat.ok() ? "compiles" : std::string(chat.status().message())) << "\n";
    compiled += chat.ok() ? 1 : 0;
    if (!chat.ok()) {
      EXPECT_THAT(std::string(chat.status().message()), ::testing::ContainsRegex("line [0-9]+"));
    }
    if (entry.path().filename() == "Qwen-Qwen2.5-7B-Instruct.jinja") {
      EXPECT_TRUE(chat.ok()) << chat.status();
    }
  }
  EXPECT_GT(compiled, 0);
}

}  // namespace
}  // namespace tandem::chat_template
