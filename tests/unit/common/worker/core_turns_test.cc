#include "common/worker/core_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace tandem::worker {
namespace {

using scheduler::TurnRole;
using std::chrono::milliseconds;

std::string GroupName(const char* test) { return fmt::format("test-{}-{}", test, ::getpid()); }

std::unique_ptr<CoreTurns> Member(const std::string& group, TurnRole role) {
  auto turns = CoreTurns::Join(group, {.role = role});
  EXPECT_TRUE(turns.ok()) << turns.status();
  return *std::move(turns);
}

TEST(CoreTurnsTest, OneAloneNeverWaits) {
  auto turns = Member(GroupName("alone"), TurnRole::kPrefill);
  for (int i = 0; i < 1000; ++i) {
    turns->Take(Duration(0));
    EXPECT_EQ(turns->GiveWay(), Duration(0));
    turns->Give();
  }
  EXPECT_EQ(turns->stats().turns, 1000);
  EXPECT_EQ(turns->stats().given_way, 0);
}

TEST(CoreTurnsTest, ManyTakeTurnsAndNoTwoComputeAtOnce) {
  const std::string group = GroupName("many");
  constexpr int kTurns = 300;
  std::atomic<int> computing{0};
  std::atomic<int> together{0};
  // Long enough that nobody is passed over on a loaded machine.
  constexpr Duration kExpected = std::chrono::seconds(5);
  const auto compute = [&] {
    if (computing.fetch_add(1) != 0) ++together;
    computing.fetch_sub(1);
  };
  std::vector<std::unique_ptr<CoreTurns>> members;
  for (int i = 0; i < 4; ++i) {
    members.push_back(Member(group, i < 2 ? TurnRole::kDecode : TurnRole::kPrefill));
  }
  std::vector<std::thread> threads;
  for (auto& member : members) {
    threads.emplace_back([&, turns = member.get()] {
      for (int i = 0; i < kTurns; ++i) {
        turns->Take(kExpected);
        compute();
        turns->Give();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, 0);
  for (auto& member : members) {
    EXPECT_EQ(member->stats().turns, kTurns);
    EXPECT_EQ(member->stats().passed_over, 0);
  }
}

TEST(CoreTurnsTest, PrefillGivesWayInsideAStepAndGoesOn) {
  const std::string group = GroupName("way");
  auto prefill = Member(group, TurnRole::kPrefill);
  auto decode = Member(group, TurnRole::kDecode);
  prefill->Take(std::chrono::seconds(5));
  std::atomic<bool> decoded{false};
  std::thread thread([&] {
    decode->Take(milliseconds(1));
    decoded = true;
    decode->Give();
  });
  while (!decoded) prefill->GiveWay();  // until its slice is over and decoding has run
  thread.join();
  prefill->GiveWay();
  prefill->Give();
  EXPECT_GE(prefill->stats().given_way, 1);
}

TEST(CoreTurnsTest, PrefillSeesTheShortestSliceOfThoseThatCompute) {
  const std::string group = GroupName("slice");
  auto prefill = Member(group, TurnRole::kPrefill);
  EXPECT_EQ(prefill->slice(), Duration(0));
  auto decode = Member(group, TurnRole::kDecode);
  decode->Take(std::chrono::seconds(10));
  decode->Give();
  EXPECT_EQ(prefill->slice(), milliseconds(7500));  // 1.75 * 10 s - 10 s
  auto other = Member(group, TurnRole::kDecode);
  other->Take(std::chrono::seconds(20));
  EXPECT_EQ(prefill->slice(), milliseconds(7500));
  decode.reset();
  EXPECT_EQ(prefill->slice(), std::chrono::seconds(15));
}

TEST(CoreGroupTest, TheLastOneOutRemovesTheFile) {
  const std::string group = GroupName("file");
  const std::string path = fmt::format("/dev/shm/tandem-{}-cores-{}.v1", ::geteuid(), group);
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no /dev/shm here";
  auto first = CoreGroup::Join(group);
  auto second = CoreGroup::Join(group);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE((*first)->own(), (*second)->own());
  first->reset();
  EXPECT_EQ(::access(path.c_str(), F_OK), 0);
  EXPECT_TRUE((*second)->Alive((*second)->own()));
  EXPECT_FALSE((*second)->Alive(0));
  second->reset();
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

TEST(CoreGroupTest, MembersComeAndGoAtOnceWithoutLosingOneAnother) {
  const std::string group = GroupName("churn");
  std::vector<std::thread> threads;
  std::atomic<int> bad{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        auto one = CoreGroup::Join(group);
        auto two = CoreGroup::Join(group);
        if (!one.ok() || !two.ok() || !(*one)->Alive((*two)->own())) ++bad;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0);
}

TEST(CoreGroupTest, AFullGroupSaysSo) {
  const std::string group = GroupName("full");
  std::vector<std::unique_ptr<CoreGroup>> members;
  for (std::size_t i = 0; i < CoreGroup::kSlots; ++i) {
    auto member = CoreGroup::Join(group);
    ASSERT_TRUE(member.ok()) << member.status();
    members.push_back(*std::move(member));
  }
  const auto more = CoreGroup::Join(group);
  EXPECT_EQ(more.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(more.status().ToString(), testing::HasSubstr("has 32 members"));
}

TEST(CoreGroupTest, NamesThatAreNoFileNamesAreRefused) {
  for (const char* bad : {"", "a/b", "a b", "ä"}) {
    EXPECT_EQ(CoreGroup::Join(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_FALSE(CoreGroup::CheckName(std::string(65, 'x')).ok());
}

}  // namespace
}  // namespace tandem::worker
