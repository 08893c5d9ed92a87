#include <gtest/gtest.h>

#include "common/base/hash128.h"
#include "common/base/marked_text.h"
#include "common/base/random.h"
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

// Known answers of the Random123 distribution (kat_vectors, philox4x32-10).
TEST(Philox, MatchesKnownAnswers) {
  EXPECT_EQ(Philox(0, {0, 0, 0, 0}),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(0xffffffffffffffffu, {0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
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
