#include "common/formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "tests/testing/gguf_writer.h"
#include "tests/testing/paths.h"
#include "tests/testing/safetensors_writer.h"

namespace tandem::formats {
namespace {

using tandem::testing::SafetensorsBytes;
using tandem::testing::SafetensorsWriter;
using tandem::testing::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

StatusOr<SafetensorsModel> Parse(const std::string& text) {
  return SafetensorsModel::FromBytes("m.safetensors",
                                     std::as_bytes(std::span(text.data(), text.size())));
}

std::string Message(const StatusOr<SafetensorsModel>& model) {
  return model.ok() ? "no error" : std::string(FromAbsl(model.status().message()));
}

// The error for a file of this header and a buffer of `bytes`.
std::string ErrorOf(std::string_view header, std::size_t bytes) {
  return Message(Parse(SafetensorsBytes(header, std::string(bytes, '\0'))));
}

SafetensorsWriter GoodWriter() {
  SafetensorsWriter writer;
  std::vector<float> a = {1, 2, 3, 4, 5, 6};
  std::vector<std::uint16_t> b = {0x3f80, 0x4000, 0x4040};
  writer.AddTensor("a", DType::kF32, {2, 3}, std::as_bytes(std::span(a)));
  writer.AddTensor("b", DType::kBF16, {3}, std::as_bytes(std::span(b)));
  writer.AddTensor("empty", DType::kF16, {0, 4}, {});
  writer.AddTensor("scalar", DType::kF16, {}, std::as_bytes(std::span(b).first(1)));
  return writer;
}

TEST(SafetensorsModel, ReadsOneFile) {
  std::string text = GoodWriter().Finish();
  auto model = Parse(text);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->tensors().size(), 4u);
  const TensorView* a = model->Find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_THAT(a->shape, ElementsAre(2, 3));
  float first_of_row_1;
  std::memcpy(&first_of_row_1, a->Row(1).data(), 4);
  EXPECT_EQ(first_of_row_1, 4.0f);
  EXPECT_EQ(model->Find("b")->dtype, DType::kBF16);
  EXPECT_EQ(model->Find("empty")->rows(), 0);
  EXPECT_THAT(model->Find("scalar")->shape, IsEmpty());
  EXPECT_EQ(model->Find("scalar")->elems(), 1);
  EXPECT_EQ(model->Find("__metadata__"), nullptr);
}

TEST(SafetensorsModel, ReadsAFolderOfShards) {
  for (int shards : {1, 2, 4}) {
    TempDir dir;
    GoodWriter().WriteFolder(dir.path(), shards);
    auto opened = SafetensorsModel::Open(dir.path());
    ASSERT_TRUE(opened.ok()) << opened.status();
    SafetensorsModel model = *std::move(opened);
    EXPECT_EQ(model.tensors().size(), 4u);
    EXPECT_EQ(model.Find("b")->bytes.size(), 6u);
    EXPECT_EQ(model.path(), dir.path());
  }
}

TEST(SafetensorsModel, UnescapesNames) {
  std::string text = SafetensorsBytes(
      R"({"\u0061b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", std::string(4, '\0'));
  auto model = Parse(text);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_NE(model->Find("ab"), nullptr);
}

TEST(SafetensorsModel, EveryCutIsOneError) {
  std::string text = GoodWriter().Finish();
  for (std::size_t size = 0; size < text.size(); ++size) {
    auto model = Parse(text.substr(0, size));
    ASSERT_TRUE(absl::IsInvalidArgument(model.status())) << size;
    ASSERT_THAT(Message(model), HasSubstr("m.safetensors"));
  }
  EXPECT_THAT(Message(Parse(text + "x")), HasSubstr("bytes follow the last tensor"));
}

TEST(SafetensorsModel, FlippedBytesNeverLeadOutside) {
  std::string good = GoodWriter().Finish();
  SplitMix64 random(11);
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (std::uint64_t n = 1 + random.Below(3); n > 0; --n) {
      text[random.Below(text.size())] = static_cast<char>(random.Next());
    }
    auto model = Parse(text);
    if (!model.ok()) continue;
    for (const TensorView& tensor : model->tensors()) {
      ASSERT_LE(tensor.bytes.data() + tensor.bytes.size(),
                reinterpret_cast<const std::byte*>(text.data()) + text.size());
      ASSERT_EQ(tensor.bytes.size(), static_cast<std::size_t>(tensor.rows()) * tensor.row_bytes());
    }
  }
}

TEST(SafetensorsModel, RefusesImpossibleHeaders) {
  EXPECT_THAT(Message(Parse(tandem::testing::Encoded(std::uint64_t{100'000'001}) + "{}")),
              HasSubstr("at most 100000000"));
  EXPECT_THAT(Message(Parse(tandem::testing::Encoded(~std::uint64_t{0}) + "{}")),
              HasSubstr("claims a header"));
  EXPECT_THAT(Message(Parse(tandem::testing::Encoded(std::uint64_t{50}) + "{}")),
              HasSubstr("2 follow"));
  EXPECT_THAT(ErrorOf("", 0), HasSubstr("does not start with '{'"));
  EXPECT_THAT(ErrorOf(" {}", 0), HasSubstr("does not start with '{'"));
  EXPECT_THAT(ErrorOf("{", 0), HasSubstr("no valid JSON"));
  EXPECT_THAT(ErrorOf("{}x", 0), HasSubstr("no valid JSON"));
  EXPECT_THAT(ErrorOf(R"({"a":)" + std::string(100000, '['), 0), HasSubstr("an array"));
  EXPECT_THAT(ErrorOf(R"({"a":{"b":{}}})", 0), HasSubstr("unknown or repeated field 'b'"));
  EXPECT_THAT(ErrorOf(R"({"a":1})", 0), HasSubstr("a number where none belongs"));
  EXPECT_THAT(ErrorOf(R"({"a":null})", 0), HasSubstr("null where none belongs"));
  EXPECT_THAT(ErrorOf(R"({"__metadata__":{"a":1}})", 0), HasSubstr("a number where none belongs"));
  EXPECT_EQ(ErrorOf("{}   ", 0), "no error");
}

TEST(SafetensorsModel, RefusesIncompleteTensors) {
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[1]}})", 4), HasSubstr("'a': lacks"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4),
              HasSubstr("'a': lacks"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4),
              HasSubstr("more than two data_offsets"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
              HasSubstr("repeated field 'dtype'"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
              HasSubstr("a negative number"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4),
              HasSubstr("a fraction"));
  EXPECT_THAT(
      ErrorOf(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4),
      HasSubstr("more than 8 dimensions"));
}

TEST(SafetensorsModel, RefusesSizesThatDisagree) {
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
              AllOf(HasSubstr("[0, 4]"), HasSubstr("shape [2] of F32")));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4),
              HasSubstr("do not fit"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904],)"
                      R"("data_offsets":[0,4]}})",
                      4),
              HasSubstr("do not fit"));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3),
              HasSubstr("truncated"));
}

TEST(SafetensorsModel, RefusesHolesOverlapAndDuplicates) {
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
                      12),
              AllOf(HasSubstr("'b'"), HasSubstr("a hole")));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                      8),
              AllOf(HasSubstr("'b'"), HasSubstr("overlap")));
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                      8),
              HasSubstr("'a': occurs twice"));
}

TEST(SafetensorsModel, RefusesOtherTypesByName) {
  std::string text = SafetensorsBytes(R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})",
                                      std::string(8, '\0'));
  EXPECT_TRUE(absl::IsUnimplemented(Parse(text).status()));
  EXPECT_THAT(Message(Parse(text)), AllOf(HasSubstr("'a'"), HasSubstr("'I64'")));
}

// Two shards with one tensor each, and an index that says what `map` says.
class ShardedModelTest : public ::testing::Test {
 protected:
  std::string ErrorWith(std::string_view map) {
    float x = 1;
    for (std::string name : {"x", "y"}) {
      SafetensorsWriter writer;
      writer.AddTensor(name, DType::kF32, {1}, std::as_bytes(std::span(&x, 1)));
      tandem::testing::WriteFile(dir_.File(name + ".safetensors"), writer.Finish());
    }
    tandem::testing::WriteFile(dir_.File("model.safetensors.index.json"), map);
    return Message(SafetensorsModel::Open(dir_.path()));
  }

  TempDir dir_;
};

TEST_F(ShardedModelTest, FollowsTheIndex) {
  EXPECT_EQ(ErrorWith(R"({"weight_map":{"x":"x.safetensors","y":"y.safetensors"}})"), "no error");
}

TEST_F(ShardedModelTest, RefusesAnIndexThatLies) {
  EXPECT_THAT(ErrorWith(R"({"weight_map":{"y":"x.safetensors"}})"),
              AllOf(HasSubstr("'y'"), HasSubstr("x.safetensors, which does not hold it")));
  EXPECT_THAT(ErrorWith(R"({"weight_map":{"x":"x.safetensors","y":"z.safetensors"}})"),
              HasSubstr("no such file"));
  EXPECT_THAT(ErrorWith(R"({"weight_map":{"x":"../x.safetensors"}})"),
              HasSubstr("not a plain file name"));
  EXPECT_THAT(ErrorWith(R"({"weight_map":{"x":"/etc/passwd"}})"), HasSubstr("not a plain file"));
  EXPECT_THAT(ErrorWith(R"({"weight_map":{"x":1}})"), HasSubstr("not a plain file name"));
  EXPECT_THAT(ErrorWith(R"({"weight_map":{}})"), HasSubstr("names no tensors"));
  EXPECT_THAT(ErrorWith("[]"), HasSubstr("weight_map"));
  EXPECT_THAT(ErrorWith("{"), HasSubstr("not valid JSON"));
}

TEST_F(ShardedModelTest, RefusesATensorInTwoShards) {
  ErrorWith("{}");
  ASSERT_EQ(::symlink("x.safetensors", dir_.File("copy.safetensors").c_str()), 0);
  tandem::testing::WriteFile(dir_.File("model.safetensors.index.json"),
                             R"({"weight_map":{"x":"copy.safetensors","z":"x.safetensors"}})");
  EXPECT_THAT(Message(SafetensorsModel::Open(dir_.path())), HasSubstr("in another shard too"));
}

TEST(SafetensorsModel, SaysWhatAFolderLacks) {
  TempDir dir;
  auto model = SafetensorsModel::Open(dir.path());
  EXPECT_TRUE(absl::IsNotFound(model.status()));
  EXPECT_THAT(Message(model), HasSubstr("neither model.safetensors nor"));
}

}  // namespace
}  // namespace tandem::formats
