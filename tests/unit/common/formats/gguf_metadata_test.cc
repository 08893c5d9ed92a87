#include "common/formats/gguf_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "common/formats/gguf.h"
#include "tests/testing/gguf_writer.h"

namespace tandem::formats {
namespace {

using tandem::testing::Encoded;
using tandem::testing::EncodedString;
using tandem::testing::GgufWriter;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The file and its bytes, which the views point into.
class GgufMetadataTest : public ::testing::Test {
 protected:
  const GgufMetadata& Read(const GgufWriter& writer) {
    text_ = writer.Finish();
    auto file = GgufFile::FromBytes("m.gguf", std::as_bytes(std::span(text_.data(), text_.size())));
    EXPECT_TRUE(file.ok()) << file.status();
    file_.emplace(*std::move(file));
    return file_->metadata();
  }
  static std::string ErrorOf(const GgufWriter& writer) {
    std::string text = writer.Finish();
    auto file = GgufFile::FromBytes("m.gguf", std::as_bytes(std::span(text.data(), text.size())));
    return file.ok() ? "no error" : std::string(FromAbsl(file.status().message()));
  }

  std::string text_;
  std::optional<GgufFile> file_;
};

template <typename T>
std::string MessageOf(const StatusOr<T>& result) {
  return result.ok() ? "no error" : std::string(FromAbsl(result.status().message()));
}

TEST_F(GgufMetadataTest, ReadsEveryType) {
  GgufWriter writer;
  writer.SetRaw("u8", GgufType::kU8, Encoded(std::uint8_t{200}));
  writer.SetRaw("i8", GgufType::kI8, Encoded(std::int8_t{-5}));
  writer.SetRaw("u16", GgufType::kU16, Encoded(std::uint16_t{60000}));
  writer.SetRaw("i16", GgufType::kI16, Encoded(std::int16_t{-3}));
  writer.SetU32("u32", 4000000000u);
  writer.SetRaw("i32", GgufType::kI32, Encoded(std::int32_t{7}));
  writer.SetF32("f32", 0.5f);
  writer.SetBool("bool", true);
  writer.SetString("string", "text");
  writer.SetU64("u64", ~std::uint64_t{0});
  writer.SetRaw("i64", GgufType::kI64, Encoded(std::numeric_limits<std::int64_t>::min()));
  writer.SetRaw("f64", GgufType::kF64, Encoded(0.25));
  const GgufMetadata& m = Read(writer);
  EXPECT_EQ(m.keys().size(), 12u);
  EXPECT_EQ(m.keys()[1], "i8");
  EXPECT_EQ(*m.GetU64("u8"), 200u);
  EXPECT_EQ(*m.GetI64("i8"), -5);
  EXPECT_EQ(*m.GetU64("u16"), 60000u);
  EXPECT_EQ(*m.GetI64("i16"), -3);
  EXPECT_EQ(*m.GetU64("u32"), 4000000000u);
  EXPECT_EQ(*m.GetU64("i32"), 7u);
  EXPECT_EQ(*m.GetF64("f32"), 0.5);
  EXPECT_EQ(*m.GetF64("i8"), -5.0);
  EXPECT_EQ(*m.GetBool("bool"), true);
  EXPECT_EQ(*m.GetString("string"), "text");
  EXPECT_EQ(*m.GetU64("u64"), ~std::uint64_t{0});
  EXPECT_EQ(*m.GetI64("i64"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(*m.GetF64("f64"), 0.25);
}

TEST_F(GgufMetadataTest, MissingKeysAreNotFoundUnlessThereIsAFallback) {
  GgufWriter writer;
  writer.SetString("s", "x");
  const GgufMetadata& m = Read(writer);
  EXPECT_TRUE(absl::IsNotFound(m.GetU64("llama.block_count").status()));
  EXPECT_THAT(MessageOf(m.GetU64("llama.block_count")),
              AllOf(HasSubstr("m.gguf"), HasSubstr("'llama.block_count'")));
  EXPECT_EQ(*m.GetU64Or("n", 3), 3u);
  EXPECT_EQ(*m.GetF64Or("n", 1.5), 1.5);
  EXPECT_EQ(*m.GetBoolOr("n", true), true);
  EXPECT_EQ(*m.GetStringOr("n", "none"), "none");
  EXPECT_FALSE(m.GetU64Or("s", 3).ok());  // there, but no number
}

TEST_F(GgufMetadataTest, WrongTypesAndRangesNameTheKey) {
  GgufWriter writer;
  writer.SetString("s", "x");
  writer.SetRaw("negative", GgufType::kI32, Encoded(std::int32_t{-1}));
  writer.SetU64("big", ~std::uint64_t{0});
  writer.SetInts("ints", std::vector<std::int32_t>{1});
  const GgufMetadata& m = Read(writer);
  EXPECT_THAT(MessageOf(m.GetU64("s")), AllOf(HasSubstr("'s'"), HasSubstr("type string")));
  EXPECT_THAT(MessageOf(m.GetF64("s")), HasSubstr("expected a number"));
  EXPECT_THAT(MessageOf(m.GetBool("s")), HasSubstr("expected bool"));
  EXPECT_THAT(MessageOf(m.GetString("ints")), HasSubstr("array of i32"));
  EXPECT_THAT(MessageOf(m.GetStringArray("ints")), HasSubstr("expected array of string"));
  EXPECT_THAT(MessageOf(m.GetIntArray("s")), HasSubstr("array of integers"));
  EXPECT_THAT(MessageOf(m.GetU64("negative")), HasSubstr("is -1"));
  EXPECT_THAT(MessageOf(m.GetI64("big")), HasSubstr("above 2^63"));
}

TEST_F(GgufMetadataTest, WalksArraysInPlace) {
  GgufWriter writer;
  writer.SetStrings("words", {"a", "", "bcd"});
  writer.SetStrings("none", {});
  writer.SetInts("ints", std::vector<std::int32_t>{-1, 2});
  writer.SetFloats("floats", std::vector<float>{0.5f, 1e30f});
  const GgufMetadata& m = Read(writer);
  auto words = m.GetStringArray("words");
  ASSERT_TRUE(words.ok());
  EXPECT_EQ(words->size(), 3u);
  EXPECT_THAT(std::vector<std::string>(words->begin(), words->end()), ElementsAre("a", "", "bcd"));
  EXPECT_EQ(m.GetStringArray("none")->begin(), m.GetStringArray("none")->end());
  auto ints = m.GetIntArray("ints");
  ASSERT_TRUE(ints.ok());
  EXPECT_EQ(ints->Int(0), -1);
  EXPECT_EQ(ints->Float(1), 2.0);
  auto floats = m.GetNumberArray("floats");
  ASSERT_TRUE(floats.ok());
  EXPECT_EQ(floats->Float(0), 0.5);
  EXPECT_EQ(floats->Int(1), 0);  // does not fit
  EXPECT_FALSE(m.GetIntArray("floats").ok());
}

TEST_F(GgufMetadataTest, RefusesLies) {
  auto array = [](std::uint32_t element, std::uint64_t count) {
    GgufWriter writer;
    writer.SetRaw("k", GgufType::kArray, Encoded(element) + Encoded(count));
    return ErrorOf(writer);
  };
  EXPECT_THAT(array(4, ~std::uint64_t{0}), AllOf(HasSubstr("m.gguf"), HasSubstr("'k'"),
                                                 HasSubstr("claims 18446744073709551615")));
  EXPECT_THAT(array(8, std::uint64_t{1} << 61), HasSubstr("claims"));
  EXPECT_THAT(array(9, 1), HasSubstr("array of arrays"));
  EXPECT_THAT(array(13, 1), HasSubstr("unknown value type 13"));

  GgufWriter long_string;
  long_string.SetRaw("k", GgufType::kString, Encoded(~std::uint64_t{0}));
  EXPECT_THAT(ErrorOf(long_string), HasSubstr("past the end"));

  GgufWriter inner;
  inner.SetRaw("k", GgufType::kArray,
               Encoded(std::uint32_t{8}) + Encoded(std::uint64_t{2}) + EncodedString("ok") +
                   Encoded(~std::uint64_t{0}));
  EXPECT_THAT(ErrorOf(inner), HasSubstr("string 1 of 2"));

  GgufWriter unknown;
  unknown.SetRaw("k", static_cast<GgufType>(99), "");
  EXPECT_THAT(ErrorOf(unknown), HasSubstr("unknown value type 99"));

  GgufWriter twice;
  twice.SetU32("k", 1);
  twice.SetString("k", "x");
  EXPECT_THAT(ErrorOf(twice), HasSubstr("'k' occurs twice"));
}

}  // namespace
}  // namespace tandem::formats
