#include "common/base/cpu_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace tandem {
namespace {

using ::testing::HasSubstr;

TEST(CpuListTest, ReadsNumbersAndRangesInTheirOrder) {
  EXPECT_EQ(*ParseCpuList("0"), (CpuList{0}));
  EXPECT_EQ(*ParseCpuList("8,0-3"), (CpuList{8, 0, 1, 2, 3}));
  EXPECT_EQ(*ParseCpuList("4095"), (CpuList{4095}));
}

TEST(CpuListTest, SaysWhatIsWrong) {
  for (const char* bad :
       {"", ",", "0,", "x", "1-", "-1", "3-1", "0 ,1", "4096", "99999999999", "0x1"}) {
    EXPECT_EQ(ParseCpuList(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_THAT(ParseCpuList("0,3-1").status().ToString(),
              HasSubstr("'3-1' in the CPU list '0,3-1'"));
  EXPECT_THAT(ParseCpuList("0-2,1").status().ToString(), HasSubstr("CPU 1 is named twice"));
}

TEST(CpuListTest, WritesWhatItReads) {
  for (const char* text : {"0", "0-3,8", "8,0-1", "5,3"}) {
    EXPECT_EQ(FormatCpuList(*ParseCpuList(text)), text);
  }
  EXPECT_EQ(FormatCpuList({}), "");
}

TEST(CpuListTest, OnlyCpusThatTheProcessMayUseAreAllowed) {
  const auto allowed = AllowedCpus();
  ASSERT_TRUE(allowed.ok() && !allowed->empty());
  EXPECT_TRUE(CheckAllowed(*allowed).ok());
  const Status missing = CheckAllowed({allowed->front(), 4095});
  EXPECT_EQ(missing.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(missing.ToString(), HasSubstr("CPU 4095"));
  EXPECT_THAT(missing.ToString(), HasSubstr(FormatCpuList(*allowed)));
}

TEST(CpuListTest, OnlyThreadsThatFillTheCpusGetOneEach) {
  const CpuList allowed{0, 1, 5};
  EXPECT_EQ(OneForEachThread(allowed, 0), allowed);
  EXPECT_EQ(OneForEachThread(allowed, 3), allowed);
  EXPECT_EQ(OneForEachThread(allowed, 2), CpuList{});
  EXPECT_EQ(OneForEachThread(allowed, 4), CpuList{});
}

TEST(CpuListTest, TryingToBindLeavesTheCallerAsItIs) {
  const auto allowed = AllowedCpus();
  ASSERT_TRUE(allowed.ok());
  EXPECT_TRUE(TryBinding({allowed->back()}).ok());
  EXPECT_EQ(*AllowedCpus(), *allowed);
  if (allowed->back() < 4095) {
    EXPECT_EQ(TryBinding({4095}).code(), absl::StatusCode::kUnavailable);
  }
}

TEST(CpuListTest, AThreadIsBoundAndItsChildrenInherit) {
  const auto allowed = AllowedCpus();
  ASSERT_TRUE(allowed.ok());
  const CpuList last{allowed->back()};
  CpuList own, child;
  std::thread([&] {
    ASSERT_TRUE(BindThisThread(last).ok());
    own = *AllowedCpus();
    std::thread([&] { child = *AllowedCpus(); }).join();
  }).join();
  EXPECT_EQ(own, last);
  EXPECT_EQ(child, last);
  EXPECT_EQ(*AllowedCpus(), *allowed);
  EXPECT_FALSE(BindThisThread({4095}).ok() && allowed->back() < 4095);
}

}  // namespace
}  // namespace tandem
