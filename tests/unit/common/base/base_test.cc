#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <span>
#include <vector>

#include "common/base/cpu_features.h"
#include "common/base/hash128.h"
#include "common/base/json_string.h"
#include "common/base/marked_text.h"
#include "common/base/progress_line.h"
#include "common/base/random.h"
#include "common/base/scoped_fd.h"
#include "common/base/sha256_lanes.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace tandem {
namespace {

TEST(StrongInt, PrintsAsItsNumber) { EXPECT_EQ(fmt::format("{}", TokenCount(12)), "12"); }

TEST(Status, AnnotateKeepsTheCode) {
  Status s = Annotate(NotFound("no tensor {}", "a"), "model.gguf");
  EXPECT_TRUE(absl::IsNotFound(s));
  EXPECT_EQ(FromAbsl(s.message()), "model.gguf: no tensor a");
}

TEST(Sha256, MatchesFips180Example) {
  EXPECT_EQ(Sha256().Update("abc").Finish128().ToHex(), "ba7816bf8f01cfea414140de5dae2223");
}

TEST(Sha256Lanes, GiveWhatOneAfterAnotherGives) {
  if (!Sha256Lanes::Works(DetectCpuFeatures())) GTEST_SKIP() << "the processor has no AVX-512";
  for (const std::size_t bytes : {0u, 1u, 55u, 56u, 63u, 64u, 119u, 120u, 1000u, 8192u}) {
    SplitMix64 random(bytes + 1);
    std::vector<std::vector<std::byte>> messages(Sha256Lanes::kLanes);
    Sha256Lanes::Lanes lanes;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      messages[i].resize(bytes + 1);  // so that there is a first one
      for (std::byte& byte : messages[i]) byte = static_cast<std::byte>(random.Below(256));
      lanes[i] = messages[i].data();
    }
    Sha256Lanes hash;
    std::size_t done = 0;
    for (const std::size_t blocks : {std::size_t{1}, std::size_t{2}, bytes / 64}) {
      if (done / 64 + blocks > bytes / 64) continue;
      hash.Update(lanes, static_cast<std::int64_t>(blocks));
      done += blocks * 64;
      for (const std::byte*& lane : lanes) lane += blocks * 64;
    }
    hash.Update(lanes, static_cast<std::int64_t>((bytes - done) / 64));
    for (const std::byte*& lane : lanes) lane += (bytes - done) / 64 * 64;
    const auto digests = hash.Finish128(lanes, static_cast<std::int64_t>(bytes % 64));
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      EXPECT_EQ(digests[i], Sha256().Update(std::span(messages[i]).first(bytes)).Finish128())
          << bytes << " bytes, lane " << i;
    }
  }
}

// Known answers of the Random123 distribution (kat_vectors, philox4x32-10).
TEST(Philox, MatchesKnownAnswers) {
  EXPECT_EQ(Philox(0, {0, 0, 0, 0}),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(0xffffffffffffffffu, {0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(JsonString, EscapesWhatJsonDoesNotLetStand) {
  EXPECT_EQ(JsonString(""), R"("")");
  EXPECT_EQ(JsonString("a\"b\\c/\xc3\xa9\x7f"), "\"a\\\"b\\\\c/\xc3\xa9\x7f\"");
  EXPECT_EQ(JsonString(std::string_view("\n\r\t\f\b\0\x1f", 7)), R"("\n\r\t\f\b\u0000\u001f")");
}

TEST(ProgressLine, TheLastWholeLineIsRead) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  const ScopedFd out(fds[0]), in(fds[1]);
  ProgressLine{7, std::chrono::milliseconds(20), std::chrono::seconds(10)}.Write(in.get());
  ProgressLine{8, std::chrono::milliseconds(30), std::chrono::seconds(11)}.Write(in.get());
  char text[256];
  const ssize_t got = ::read(out.get(), text, sizeof text);
  ASSERT_GT(got, 0);
  const std::string whole(text, static_cast<std::size_t>(got));
  for (const std::string& read : {whole, whole + "9 5"}) {
    const auto last = ProgressLine::Last(read);
    ASSERT_TRUE(last.has_value()) << read;
    EXPECT_EQ(last->step, 8u);
    EXPECT_EQ(last->running_for, std::chrono::milliseconds(30));
    EXPECT_EQ(last->stuck_after, std::chrono::seconds(11));
  }
  for (const char* none : {"", "\n", "8 30 11000", "8 30\n", "who knows\n"}) {
    EXPECT_EQ(ProgressLine::Last(none), std::nullopt) << none;
  }
}

TEST(MarkedText, JoinsTouchingUserRanges) {
  MarkedText t =
      MarkedText::FromUser("ab") + MarkedText::FromUser("cd") + MarkedText::Trusted("ef");
  ASSERT_EQ(t.user_ranges().size(), 1u);
  EXPECT_EQ(t.user_ranges()[0], (MarkedText::Range{0, 4}));
  EXPECT_TRUE(t.AnyFromUser(3, 6));
  EXPECT_FALSE(t.AnyFromUser(4, 6));
}

TEST(MarkedText, SubstrCutsRanges) {
  MarkedText t =
      MarkedText::Trusted("<a>") + MarkedText::FromUser("user") + MarkedText::Trusted("<b>");
  MarkedText s = t.Substr(2, 5);
  EXPECT_EQ(s.text(), ">us");
  EXPECT_EQ(s.user_ranges()[0], (MarkedText::Range{1, 3}));
}

TEST(MarkedText, AppendsItself) {
  MarkedText t = MarkedText::Trusted("x") + MarkedText::FromUser("y");
  t += t;
  EXPECT_EQ(t.text(), "xyxy");
  ASSERT_EQ(t.user_ranges().size(), 2u);
  EXPECT_EQ(t.user_ranges()[1], (MarkedText::Range{3, 4}));
}

}  // namespace
}  // namespace tandem
