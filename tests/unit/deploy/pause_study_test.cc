// How long streams pause, by kind of fault, in virtual time: the aims hold.
#include "deploy/sim/pause_study.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>

namespace tandem::sim {
namespace {

// Sanitizers make a history thirty times as slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kHistories = 20;
#else
constexpr std::uint64_t kHistories = 300;
#endif

const PauseKind& Kind(std::string_view name) {
  return *std::find_if(PauseKinds().begin(), PauseKinds().end(),
                       [&](const PauseKind& kind) { return kind.name == name; });
}

class PauseAims : public ::testing::TestWithParam<std::size_t> {};

TEST_P(PauseAims, Hold) {
  const PauseKind& kind = PauseKinds()[GetParam()];
  const PauseSummary sum = StudyPauses(kind, 1, kHistories);
  std::printf("%s", ToString(std::span(&sum, 1)).c_str());
  EXPECT_TRUE(sum.violations.empty());
  EXPECT_EQ(sum.failed, 0);
  EXPECT_GT(sum.streams, static_cast<std::int64_t>(10 * kHistories));
  EXPECT_TRUE(sum.ok());
}

INSTANTIATE_TEST_SUITE_P(All, PauseAims, ::testing::Range<std::size_t>(0, PauseKinds().size()),
                         [](const auto& info) {
                           std::string name(PauseKinds()[info.param].name);
                           std::erase_if(name, [](unsigned char c) { return !std::isalnum(c); });
                           return name;
                         });

// Half of two hundred streams lose their node at once: their turns at being tried again are short.
TEST(PauseStudy, ManyStreamsOfADeadNodeKeepTheAim) {
  const PauseKind& kind = Kind("kill decode");
  std::size_t paused = 0;
  for (std::uint64_t seed = 1; seed <= 1 + kHistories / 60; ++seed) {
    SimOptions options = PauseHistory(kind, seed);
    options.requests = 200;
    options.output_max = 400;
    options.prefill_blocks = options.decode_blocks = 6000;
    options.faults[0].at = std::chrono::milliseconds(100);
    const SimReport report = Simulate(options);
    EXPECT_EQ(report.violation, "");
    EXPECT_EQ(report.failed, 0);
    for (const StreamPause& pause : report.pauses) {
      ++paused;
      EXPECT_LE(pause.beyond, kind.aim);
    }
  }
  EXPECT_GT(paused, 50u);
}

// A stop that is too short to count as a loss is waited for: its length is the pause, nothing
// hides in what is taken off.
TEST(PauseStudy, AShortStopIsThePause) {
  const PauseKind& kind = Kind("stop decode");
  std::size_t paused = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimOptions options = PauseHistory(kind, seed);
    options.faults[0].length = std::chrono::milliseconds(900);
    const SimReport report = Simulate(options);
    EXPECT_EQ(report.violation, "");
    for (const StreamPause& pause : report.pauses) {
      if (pause.whole < std::chrono::milliseconds(800)) continue;
      ++paused;
      EXPECT_LT(pause.whole, std::chrono::milliseconds(950));
      EXPECT_GT(pause.beyond, std::chrono::milliseconds(790));
    }
  }
  EXPECT_GT(paused, 5u);
}

}  // namespace
}  // namespace tandem::sim
