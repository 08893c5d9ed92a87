#include "common/scheduler/turn_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "common/base/random.h"

namespace tandem::scheduler {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr TurnRole kD = TurnRole::kDecode;
constexpr TurnRole kP = TurnRole::kPrefill;

TEST(NextTurn, NobodyWhenNobodyWaits) {
  EXPECT_EQ(NextTurn({}), std::nullopt);
  EXPECT_EQ(NextTurn(std::vector<TurnMember>{{.role = kD}, {.role = kP}}), std::nullopt);
}

TEST(NextTurn, AStepBeforeASliceAndASliceBeforeTheNextStep) {
  std::vector<TurnMember> m = {
      {.role = kP, .waiting = true, .ticket = 1, .last_turn = 5},
      {.role = kD, .waiting = true, .ticket = 2, .last_turn = 4},
  };
  EXPECT_EQ(NextTurn(m), 1u);  // no step since the slice
  m[1].last_turn = 6;
  EXPECT_EQ(NextTurn(m), 0u);
  m[0].waiting = false;
  EXPECT_EQ(NextTurn(m), 1u);  // nothing to prefill: steps follow one another
}

TEST(NextTurn, EveryDecodeMemberHasItsStepBeforeASlice) {
  const std::vector<TurnMember> m = {
      {.role = kP, .waiting = true, .ticket = 1, .last_turn = 3},
      {.role = kD, .waiting = true, .ticket = 2, .last_turn = 4},  // had it
      {.role = kD, .waiting = true, .ticket = 9, .last_turn = 2},
  };
  EXPECT_EQ(NextTurn(m), 2u);
}

TEST(NextTurn, TheEarliestOfEquals) {
  const std::vector<TurnMember> m = {{.role = kP, .waiting = true, .ticket = 8},
                                     {.role = kP, .waiting = true, .ticket = 7}};
  EXPECT_EQ(NextTurn(m), 1u);
}

TEST(GivesWay, NeverToNobody) {
  const std::vector<TurnMember> m = {{.role = kD, .slice = milliseconds(1)},
                                     {.role = kP, .waiting = true}};
  EXPECT_FALSE(GivesWay(m, std::chrono::hours(1), milliseconds(1)));
}

TEST(GivesWay, WhereItComesNearestToTheSlice) {
  const std::vector<TurnMember> m = {{.role = kD, .waiting = true, .slice = milliseconds(10)}};
  EXPECT_FALSE(GivesWay(m, milliseconds(7), milliseconds(4)));  // 7 or 11: 11 is nearer
  EXPECT_TRUE(GivesWay(m, milliseconds(8), milliseconds(4)));   // 8 or 12: as near, and shorter
  EXPECT_TRUE(GivesWay(m, milliseconds(300), milliseconds(4)));
}

TEST(GivesWay, TheShortestSliceOfThoseThatWaitCounts) {
  const std::vector<TurnMember> m = {{.role = kD, .waiting = true, .slice = milliseconds(20)},
                                     {.role = kD, .waiting = true, .slice = milliseconds(5)},
                                     {.role = kD, .waiting = false, .slice = milliseconds(1)}};
  EXPECT_FALSE(GivesWay(m, milliseconds(4), milliseconds(1)));
  EXPECT_TRUE(GivesWay(m, milliseconds(5), milliseconds(1)));
}

TEST(SliceFor, StretchesTheUndisturbedDistanceUnlessATargetIsGiven) {
  const StepRhythm rhythm{.step = milliseconds(10), .pause = milliseconds(2)};
  EXPECT_EQ(SliceFor(rhythm, Duration(0)), milliseconds(11));  // 1.75 * 12 - 10
  EXPECT_EQ(SliceFor(rhythm, milliseconds(40)), milliseconds(28));
}

TEST(SliceFor, PromptsEndHoweverSmallTheTarget) {
  EXPECT_EQ(SliceFor({.step = milliseconds(16)}, milliseconds(5)), milliseconds(2));
}

TEST(SliceFor, NothingForAnUnknownRhythm) {
  EXPECT_EQ(SliceFor({}, milliseconds(40)), Duration(0));
}

TEST(TurnPatience, GrowsWithWhatWasExpectedAndIsBounded) {
  EXPECT_EQ(TurnPatience(milliseconds(10)), milliseconds(90));
  EXPECT_LT(TurnPatience(std::chrono::hours(9)), std::chrono::seconds(30));
  EXPECT_GT(TurnPatience(Duration(0)), milliseconds(500));
}

// Engines in virtual time that follow the policy: decode members wish for a step again `pause`
// after their last one, prefill members always have pieces to compute.
class SharedCores {
 public:
  SharedCores(int decoders, int prefillers, std::uint64_t seed) : random_(seed) {
    for (int i = 0; i < decoders; ++i) Add(kD);
    for (int i = 0; i < prefillers; ++i) Add(kP);
  }

  void Run(Duration until) {
    while (now_ < until) {
      for (std::size_t i = 0; i < members_.size(); ++i) Wish(i);
      const auto next = NextTurn(members_);
      if (!next.has_value()) {
        now_ += microseconds(100);
        continue;
      }
      Begin(*next);
      members_[*next].role == kD ? Step(*next) : Slice(*next);
    }
  }

  Duration step = milliseconds(10);
  Duration pause = milliseconds(1);
  Duration piece = milliseconds(2);
  std::vector<std::vector<Duration>> gaps;  // [member] between two steps, or turns of prefill
  std::vector<Duration> computed;           // [member]

 private:
  void Add(TurnRole role) {
    members_.push_back({.role = role});
    free_at_.push_back(Duration(static_cast<std::int64_t>(random_.Below(1'000'000))));
    began_.push_back(Duration(0));
    gaps.emplace_back();
    computed.push_back(Duration(0));
  }
  void Wish(std::size_t i) {
    if (members_[i].waiting || free_at_[i] > now_) return;
    members_[i].waiting = true;
    members_[i].ticket = ++ticket_;
    if (members_[i].role == kD) {
      members_[i].slice = SliceFor({.step = step, .pause = pause}, Duration(0));
    }
  }
  void Begin(std::size_t i) {
    if (began_[i] > Duration(0)) gaps[i].push_back(now_ - began_[i]);
    began_[i] = now_;
    members_[i].waiting = false;
    members_[i].last_turn = ++turn_;
  }
  void Step(std::size_t i) {
    now_ += step;
    computed[i] += step;
    free_at_[i] = now_ + pause;
  }
  void Slice(std::size_t i) {
    const Duration began = now_;
    do {
      const auto half = static_cast<std::uint64_t>(piece.count() / 2);
      now_ += piece / 2 + Duration(static_cast<std::int64_t>(random_.Below(2 * half)));
      for (std::size_t d = 0; d < members_.size(); ++d) {
        if (d != i) Wish(d);
      }
    } while (now_ - began < milliseconds(200) && !GivesWay(members_, now_ - began, piece));
    computed[i] += now_ - began;
    free_at_[i] = now_;
  }

  SplitMix64 random_;
  std::vector<TurnMember> members_;
  std::vector<Duration> free_at_;
  std::vector<Duration> began_;
  Duration now_{0};
  std::uint64_t ticket_ = 0;
  std::uint64_t turn_ = 0;
};

Duration Median(std::vector<Duration> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

TEST(SharedCoresTest, DecodingAloneIsUndisturbed) {
  SharedCores cores(1, 0, 1);
  cores.Run(std::chrono::seconds(2));
  for (Duration gap : cores.gaps[0]) EXPECT_LE(gap, cores.step + cores.pause + microseconds(100));
}

TEST(SharedCoresTest, PrefillAloneHasEverything) {
  SharedCores cores(0, 1, 2);
  cores.Run(std::chrono::seconds(2));
  EXPECT_GE(cores.computed[0], milliseconds(1990));
}

TEST(SharedCoresTest, StepsStayWithinTwiceTheUndisturbedDistance) {
  SharedCores cores(1, 1, 3);
  cores.Run(std::chrono::seconds(5));
  const Duration undisturbed = cores.step + cores.pause;
  EXPECT_LE(Median(cores.gaps[0]), 2 * undisturbed);
  // The first slice may have begun before any step was wished for.
  const std::vector<Duration> later(cores.gaps[0].begin() + 1, cores.gaps[0].end());
  EXPECT_LE(*std::max_element(later.begin(), later.end()), 2 * undisturbed + cores.piece);
  EXPECT_GE(cores.computed[1], milliseconds(2000));  // and prefill gets nearly the other half
}

TEST(SharedCoresTest, SeveralOfEachWaitForABoundedTimeAndShareEqually) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    SharedCores cores(3, 2, seed);
    cores.Run(std::chrono::seconds(10));
    const Duration slice = SliceFor({.step = cores.step, .pause = cores.pause}, Duration(0));
    const Duration most_slice = slice + cores.piece;
    for (std::size_t d = 0; d < 3; ++d) {  // all steps once, one slice, and its own thought
      for (std::size_t i = 1; i < cores.gaps[d].size(); ++i) {
        ASSERT_LE(cores.gaps[d][i], 4 * cores.step + 2 * most_slice) << d << " " << i;
      }
      EXPECT_NEAR(ToSeconds(cores.computed[d]), ToSeconds(cores.computed[0]), 0.1);
    }
    EXPECT_NEAR(ToSeconds(cores.computed[3]), ToSeconds(cores.computed[4]), 0.1);
    EXPECT_GT(cores.computed[3], milliseconds(500));
  }
}

}  // namespace
}  // namespace tandem::scheduler
