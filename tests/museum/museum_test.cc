// Each mutant of the production machines is still found by the simulator, in a history that the
// machines as they are pass; or by a named test of the machines, where no history comes there.
#include "tests/museum/museum.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace tandem::museum {
namespace {

// From the seed that found it; further ones, since the histories of seeds change with the
// simulator.
constexpr std::uint64_t kSeeds = 6000;

// Whether the test of this name passes with mutant `number` (-1: none) running.
bool Passes(const char* test, int number) {
  const std::string mutant = std::to_string(number);
  const std::string filter = std::string("--gtest_filter=") + test;
  const pid_t child = fork();
  if (child == 0) {
    (void)!freopen("/dev/null", "w", stdout);  // that it fails is as it should be
    execl(MUSEUM_RACES, MUSEUM_RACES, mutant.c_str(), filter.c_str(), nullptr);
    _exit(0);  // neither found nor as it should be
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class Museum : public ::testing::TestWithParam<int> {};

TEST_P(Museum, MutantIsFound) {
  const Entry& entry = Catalogue()[static_cast<std::size_t>(GetParam())];
  ASSERT_STREQ(entry.missing, "") << "has not the text that tests/museum/mutants.py changes";
  if (*entry.test != '\0') {
    EXPECT_TRUE(Passes(entry.test, -1)) << entry.test;
    EXPECT_FALSE(Passes(entry.test, GetParam())) << entry.rule << ": " << entry.test;
    return;
  }
  const auto found = Search(GetParam(), entry.seed, kSeeds);
  ASSERT_TRUE(found.has_value()) << entry.rule << ": not found in " << kSeeds << " seeds from "
                                 << entry.seed;
  RecordProperty("seed", std::to_string(found->seed));
}

INSTANTIATE_TEST_SUITE_P(All, Museum, ::testing::Range(0, static_cast<int>(Catalogue().size())),
                         [](const auto& info) {
                           return std::string(
                               Catalogue()[static_cast<std::size_t>(info.param)].name);
                         });

TEST(MuseumTest, HasFiftyMutants) { EXPECT_GE(Catalogue().size(), 50u); }

}  // namespace
}  // namespace tandem::museum
