#include "common/formats/json_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <string>

#include "tests/testing/paths.h"

namespace tandem::formats {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text, const JsonLimits& limits = {}) {
  auto value = ParseJson("config.json", text, limits);
  if (value.ok()) return "no error";
  EXPECT_TRUE(absl::IsInvalidArgument(value.status()));
  return std::string(FromAbsl(value.status().message()));
}

TEST(ParseJson, GivesTheValue) {
  auto value = ParseJson("config.json", R"({"a":[1,2.5,"x",null,true]})");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->as_object().at("a").as_array().size(), 5u);
}

TEST(ParseJson, TellsLineAndColumn) {
  EXPECT_THAT(ErrorOf("{\n  \"a\": x}"), AllOf(HasSubstr("config.json"), HasSubstr("line 2")));
  EXPECT_THAT(ErrorOf("{\"a\":1"), HasSubstr("incomplete"));
  EXPECT_THAT(ErrorOf("{} {}"), HasSubstr("line 1"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("line 1, column 1"));
}

TEST(ParseJson, RefusesWhatIsTooLongTooDeepOrTooLarge) {
  EXPECT_THAT(ErrorOf("[1,2,3]", {.max_bytes = 6}), HasSubstr("has 7 bytes"));
  EXPECT_THAT(ErrorOf("[[[[1]]]]", {.max_depth = 3}), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOf(std::string(1 << 20, '[')), HasSubstr("not valid JSON"));
  std::string many = "[0";
  for (int i = 0; i < 100000; ++i) many += ",0";
  EXPECT_THAT(ErrorOf(many + "]", {.max_memory = 1 << 16}), HasSubstr("65536 bytes of memory"));
}

TEST(ReadJsonFile, ReadsAFileAndNamesIt) {
  tandem::testing::TempDir dir;
  tandem::testing::WriteFile(dir.File("a.json"), R"({"k":1})");
  tandem::testing::WriteFile(dir.File("empty.json"), "");
  EXPECT_TRUE(ReadJsonFile(dir.File("a.json")).ok());
  EXPECT_TRUE(absl::IsNotFound(ReadJsonFile(dir.File("none.json")).status()));
  EXPECT_THAT(FromAbsl(ReadJsonFile(dir.File("empty.json")).status().message()),
              HasSubstr("empty.json: not valid JSON"));
}

}  // namespace
}  // namespace tandem::formats
