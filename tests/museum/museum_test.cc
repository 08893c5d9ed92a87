// Each mutant of the production machines is still found by the simulator, in a history that the
// machines as they are pass.
#include "tests/museum/museum.h"

#include <gtest/gtest.h>

namespace tandem::museum {
namespace {

// From the seed that found it; further ones, since the histories of seeds change with the
// simulator.
constexpr std::uint64_t kSeeds = 6000;

class Museum : public ::testing::TestWithParam<int> {};

TEST_P(Museum, MutantIsFound) {
  const Entry& entry = Catalogue()[static_cast<std::size_t>(GetParam())];
  ASSERT_STREQ(entry.missing, "") << "has not the text that tests/museum/mutants.py changes";
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

TEST(MuseumTest, HasTwentyFiveMutants) { EXPECT_GE(Catalogue().size(), 25u); }

}  // namespace
}  // namespace tandem::museum
