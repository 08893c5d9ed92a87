#include "tests/testing/paths.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace tandem::testing {
namespace {

constexpr const char* kModel = "SmolLM2-135M-Instruct.Q4_1.gguf";

// Sets a variable for one test; an empty value removes it.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    const char* before = std::getenv(name);
    if (before != nullptr) before_ = before;
    Set(value);
  }
  ~ScopedVariable() { Set(before_); }

 private:
  void Set(const std::string& value) {
    value.empty() ? ::unsetenv(name_) : ::setenv(name_, value.c_str(), 1);
  }
  const char* name_;
  std::string before_;
};

TEST(SmolLm2Path, LooksWhereTheQuickstartKeepsIt) {
  TempDir dir;
  std::filesystem::create_directories(dir.File("xdg/tandem/models"));
  std::filesystem::create_directories(dir.File("home/.cache/tandem/models"));
  ScopedVariable home("HOME", dir.File("home"));
  ScopedVariable xdg("XDG_CACHE_HOME", "");
  ScopedVariable cache("TANDEM_MODEL_CACHE", "");
  EXPECT_EQ(SmolLm2Path(), std::nullopt);
  std::string at_home = dir.File("home/.cache/tandem/models/") + kModel;
  WriteFile(at_home, "x");
  EXPECT_EQ(SmolLm2Path(), at_home);
  {
    ScopedVariable xdg_set("XDG_CACHE_HOME", dir.File("xdg"));
    EXPECT_EQ(SmolLm2Path(), std::nullopt);
    WriteFile(dir.File("xdg/tandem/models/") + kModel, "x");
    EXPECT_EQ(SmolLm2Path(), dir.File("xdg/tandem/models/") + kModel);
    ScopedVariable cache_set("TANDEM_MODEL_CACHE", dir.path());
    EXPECT_EQ(SmolLm2Path(), std::nullopt);
  }
}

TEST(SharedPath, IsNothingWhereTheDataIsAbsent) {
  TempDir dir;
  ScopedVariable shared("TANDEM_SHARED", dir.path());
  EXPECT_EQ(SharedPath("models/a"), std::nullopt);
  std::filesystem::create_directories(dir.File("models"));
  WriteFile(dir.File("models/a"), "x");
  EXPECT_EQ(SharedPath("models/a"), dir.File("models/a"));
}

TEST(TempDir, IsRemovedWithItsContents) {
  std::string path;
  {
    TempDir dir;
    path = dir.path();
    WriteFile(dir.File("a"), "x");
    EXPECT_TRUE(std::filesystem::exists(path + "/a"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace tandem::testing
