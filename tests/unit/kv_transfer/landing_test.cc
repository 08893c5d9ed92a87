#include "kv_transfer/landing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "common/base/random.h"

namespace tandem::transfer {
namespace {

constexpr RegionId kA{1};
constexpr RegionId kB{2};

class LandingTest : public ::testing::Test {
 protected:
  std::vector<std::byte> a_ = std::vector<std::byte>(1000);
  std::vector<std::byte> b_ = std::vector<std::byte>(500);
  Landing landing_{{{kA, a_}, {kB, b_}}, 3};
};

TEST_F(LandingTest, TakesAllRangesOfAMessageOrNone) {
  const Ticket ticket{1, 2, 3};
  const std::vector<SinkRange> expected = {{kA, 0, 100}, {kB, 0, 100}};
  ASSERT_TRUE(landing_.Expect(ticket, expected).ok());
  const std::vector<std::byte> data(20, std::byte{9});
  const std::vector<SinkRange> half_outside = {{kA, 0, 10}, {kA, 95, 10}};
  EXPECT_EQ(landing_.Take(ticket, half_outside, data).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::count(a_.begin(), a_.end(), std::byte{9}), 0);
  const std::vector<SinkRange> inside = {{kA, 90, 10}, {kB, 0, 10}};
  EXPECT_TRUE(landing_.Take(ticket, inside, data).ok());
  EXPECT_EQ(a_[99], std::byte{9});
  EXPECT_EQ(b_[9], std::byte{9});
  EXPECT_EQ(landing_.Received(ticket).value(), 20);
  EXPECT_EQ(landing_.stats().dropped_messages, 1u);
}

TEST_F(LandingTest, LengthsMustAddUp) {
  const Ticket ticket{1, 2, 3};
  const SinkRange range{kA, 0, 100};
  ASSERT_TRUE(landing_.Expect(ticket, {&range, 1}).ok());
  EXPECT_EQ(landing_.Take(ticket, {&range, 1}, std::vector<std::byte>(99)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(landing_.Take(ticket, {&range, 1}, std::vector<std::byte>(101)).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(LandingTest, TheNumberOfTicketsIsBounded) {
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(landing_.Expect({0, i, 0}, {}).ok());
  EXPECT_EQ(landing_.Expect({0, 9, 0}, {}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(landing_.Expect({0, 1, 0}, {}).ok()) << "a repetition needs no room";
  landing_.Forget({0, 0, 0});
  EXPECT_TRUE(landing_.Expect({0, 9, 0}, {}).ok());
}

TEST_F(LandingTest, AgreesWithAMapOfBytes) {
  SplitMix64 random(11);
  for (int round = 0; round < 2000; ++round) {
    const Ticket ticket{0, 0, static_cast<std::uint64_t>(round)};
    std::vector<bool> allowed(1000);
    std::vector<SinkRange> ranges;
    for (std::uint64_t i = random.Below(6); i > 0; --i) {
      const std::uint64_t offset = random.Below(1000);
      const std::uint64_t length = random.Below(1001 - offset);
      ranges.push_back({kA, offset, length});
      for (std::uint64_t k = offset; k < offset + length; ++k) allowed[k] = true;
    }
    ASSERT_TRUE(landing_.Expect(ticket, ranges).ok());
    for (int probe = 0; probe < 20; ++probe) {
      const std::uint64_t offset = random.Below(1000);
      const std::uint64_t length = 1 + random.Below(1000 - offset);
      const SinkRange range{kA, offset, length};
      bool inside = true;
      for (std::uint64_t k = offset; k < offset + length; ++k) inside = inside && allowed[k];
      ASSERT_EQ(landing_.Take(ticket, {&range, 1}, std::vector<std::byte>(length)).ok(), inside)
          << "round " << round << ": " << length << " at " << offset;
    }
    landing_.Forget(ticket);
  }
}

}  // namespace
}  // namespace tandem::transfer
