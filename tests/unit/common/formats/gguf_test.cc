#include "common/formats/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/random.h"
#include "tests/testing/gguf_writer.h"
#include "tests/testing/model_generator.h"
#include "tests/testing/paths.h"

namespace tandem::formats {
namespace {

using tandem::testing::Encoded;
using tandem::testing::EncodedString;
using tandem::testing::GgufWriter;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

StatusOr<GgufFile> Parse(const std::string& text) {
  return GgufFile::FromBytes("model.gguf", std::as_bytes(std::span(text.data(), text.size())));
}

std::string ErrorOf(const std::string& text) {
  auto file = Parse(text);
  return file.ok() ? "no error" : std::string(FromAbsl(file.status().message()));
}

// One tensor description as files have it; dims[0] is contiguous.
std::string TensorInfo(std::string_view name, std::vector<std::uint64_t> dims, std::uint32_t type,
                       std::uint64_t offset) {
  std::string out = EncodedString(name) + Encoded(static_cast<std::uint32_t>(dims.size()));
  for (std::uint64_t dim : dims) out += Encoded(dim);
  return out + Encoded(type) + Encoded(offset);
}

// A file of these descriptions and `data_bytes` of data; no metadata.
std::string FileOf(const std::vector<std::string>& infos, std::size_t data_bytes) {
  std::string out = "GGUF" + Encoded(std::uint32_t{3}) + Encoded(std::uint64_t{infos.size()}) +
                    Encoded(std::uint64_t{0});
  for (const std::string& info : infos) out += info;
  out.resize((out.size() + 31) / 32 * 32);
  return out + std::string(data_bytes, '\1');
}

std::string GoodFile(std::uint32_t version = 3, std::uint32_t alignment = 32) {
  GgufWriter writer(version, alignment);
  writer.SetString("general.architecture", "llama");
  writer.SetStrings("tokens", {"a", "", "bc"});
  std::string q8(68, '\2');
  writer.AddTensor("a", DType::kQ8_0, {2, 32}, std::as_bytes(std::span(q8.data(), q8.size())));
  std::vector<float> norm = {1.0f, 2.0f, 3.0f};
  writer.AddTensor("b", DType::kF32, {3}, std::as_bytes(std::span(norm)));
  return writer.Finish();
}

TEST(GgufFile, ReadsTensorsInPyTorchOrder) {
  for (std::uint32_t version : {2u, 3u}) {
    for (std::uint32_t alignment : {8u, 32u, 4096u}) {
      std::string text = GoodFile(version, alignment);
      auto file = Parse(text);
      ASSERT_TRUE(file.ok()) << file.status();
      EXPECT_EQ(file->version(), static_cast<int>(version));
      ASSERT_EQ(file->tensors().size(), 2u);
      const TensorView* a = file->Find("a");
      ASSERT_NE(a, nullptr);
      EXPECT_EQ(a->dtype, DType::kQ8_0);
      EXPECT_THAT(a->shape, ElementsAre(2, 32));
      EXPECT_EQ(a->rows(), 2);
      EXPECT_EQ(a->row_bytes(), 34u);
      EXPECT_EQ(a->Row(1).data(), a->bytes.data() + 34);
      const TensorView* b = file->Find("b");
      ASSERT_NE(b, nullptr);
      EXPECT_EQ(b->rows(), 1);
      float last;
      std::memcpy(&last, b->bytes.data() + 8, 4);
      EXPECT_EQ(last, 3.0f);
      EXPECT_EQ(file->Find("c"), nullptr);
    }
  }
}

TEST(GgufFile, SurvivesAMove) {
  tandem::testing::TempDir dir;
  tandem::testing::WriteFile(dir.File("m.gguf"), GoodFile());
  auto opened = GgufFile::Open(dir.File("m.gguf"));
  ASSERT_TRUE(opened.ok()) << opened.status();
  GgufFile moved = *std::move(opened);
  ASSERT_NE(moved.Find("a"), nullptr);
  EXPECT_EQ(*moved.metadata().GetString("general.architecture"), "llama");
  EXPECT_EQ(moved.path(), dir.File("m.gguf"));
}

TEST(TensorSource, GetNamesWhatIsMissingOrMisshapen) {
  std::string text = GoodFile();
  auto file = Parse(text);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->Get("a", {2, 32}).ok());
  auto missing = file->Get("blk.0.attn_q.weight");
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(FromAbsl(missing.status().message()),
              AllOf(HasSubstr("model.gguf"), HasSubstr("'blk.0.attn_q.weight'")));
  auto wrong = file->Get("a", {32, 2});
  EXPECT_TRUE(absl::IsInvalidArgument(wrong.status()));
  EXPECT_THAT(FromAbsl(wrong.status().message()),
              AllOf(HasSubstr("[2, 32]"), HasSubstr("[32, 2]")));
}

TEST(GgufFile, EveryCutIsOneError) {
  std::string text = GoodFile();
  std::size_t needed = text.size() - 20;  // the last tensor's padding
  for (std::size_t size = 0; size < needed; ++size) {
    auto file = Parse(text.substr(0, size));
    ASSERT_FALSE(file.ok()) << size;
    ASSERT_TRUE(absl::IsInvalidArgument(file.status())) << file.status();
    ASSERT_THAT(FromAbsl(file.status().message()), HasSubstr("model.gguf")) << size;
  }
  EXPECT_TRUE(Parse(text.substr(0, needed)).ok());
}

// Whatever happens to a byte: an error or a file, and every view inside the bytes.
TEST(GgufFile, FlippedBytesNeverLeadOutside) {
  std::string good = GoodFile();
  SplitMix64 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (std::uint64_t n = 1 + random.Below(3); n > 0; --n) {
      text[random.Below(text.size())] = static_cast<char>(random.Next());
    }
    auto file = Parse(text);
    if (!file.ok()) continue;
    for (const TensorView& tensor : file->tensors()) {
      auto* begin = reinterpret_cast<const std::byte*>(text.data());
      ASSERT_GE(tensor.bytes.data(), begin);
      ASSERT_LE(tensor.bytes.data() + tensor.bytes.size(), begin + text.size());
      ASSERT_EQ(tensor.bytes.size(), static_cast<std::size_t>(tensor.rows()) * tensor.row_bytes());
    }
  }
}

TEST(GgufFile, RefusesOtherFiles) {
  EXPECT_THAT(ErrorOf("PK\3\4 something"), HasSubstr("not a GGUF file"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("not a GGUF file"));
}

TEST(GgufFile, RefusesOtherVersions) {
  for (std::uint32_t version : {0u, 1u, 4u, 0x03000000u}) {
    std::string text = GoodFile(version);
    EXPECT_TRUE(absl::IsUnimplemented(Parse(text).status())) << version;
  }
  EXPECT_THAT(ErrorOf(GoodFile(1)), HasSubstr("version 1"));
  EXPECT_THAT(ErrorOf(GoodFile(0x03000000)), HasSubstr("big-endian"));
}

TEST(GgufFile, RefusesCountsThatTheFileCannotHold) {
  std::string start = "GGUF" + Encoded(std::uint32_t{3});
  for (std::uint64_t count : {std::uint64_t{1} << 20, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    EXPECT_THAT(ErrorOf(start + Encoded(count) + Encoded(std::uint64_t{0}) + std::string(64, '\0')),
                HasSubstr("claims " + std::to_string(count) + " tensors"));
    EXPECT_THAT(ErrorOf(start + Encoded(std::uint64_t{0}) + Encoded(count) + std::string(64, '\0')),
                HasSubstr("claims " + std::to_string(count) + " metadata pairs"));
  }
}

TEST(GgufFile, RefusesDimensionsThatOverflow) {
  EXPECT_THAT(ErrorOf(FileOf(
                  {TensorInfo("t", {std::uint64_t{1} << 40, std::uint64_t{1} << 40}, 0, 0)}, 64)),
              AllOf(HasSubstr("'t'"), HasSubstr("dimension 1")));
  EXPECT_THAT(ErrorOf(FileOf({TensorInfo("t", {std::uint64_t{1} << 62}, 0, 0)}, 64)),
              HasSubstr("more bytes than 2^63"));
  EXPECT_THAT(ErrorOf(FileOf({TensorInfo("t", {~std::uint64_t{0}}, 0, 0)}, 64)),
              HasSubstr("dimension 0"));
  EXPECT_THAT(ErrorOf(FileOf({TensorInfo("t", {4, 0}, 0, 0)}, 64)), HasSubstr("dimension 1 is 0"));
}

TEST(GgufFile, RefusesTooManyOrNoDimensions) {
  EXPECT_THAT(ErrorOf(FileOf({TensorInfo("t", {1, 1, 1, 1, 1}, 0, 0)}, 64)),
              HasSubstr("has 5 dimensions"));
  EXPECT_THAT(ErrorOf(FileOf({TensorInfo("t", {}, 0, 0)}, 64)), HasSubstr("has 0 dimensions"));
}

TEST(GgufFile, RefusesUnknownTypesByName) {
  std::string text = FileOf({TensorInfo("t", {256}, 10, 0)}, 256);
  EXPECT_TRUE(absl::IsUnimplemented(Parse(text).status()));
  EXPECT_THAT(ErrorOf(text), HasSubstr("type 10 (Q2_K)"));
  EXPECT_THAT(ErrorOf(FileOf({TensorInfo("t", {256}, 77, 0)}, 256)), HasSubstr("type 77 (?)"));
}

TEST(GgufFile, RefusesRowsThatAreNotWholeBlocks) {
  EXPECT_THAT(ErrorOf(FileOf({TensorInfo("t", {576, 2}, 12, 0)}, 2048)),
              AllOf(HasSubstr("rows of 576"), HasSubstr("Q4_K"), HasSubstr("256")));
}

TEST(GgufFile, RefusesMisalignedOffsets) {
  EXPECT_THAT(ErrorOf(FileOf({TensorInfo("t", {4}, 0, 16)}, 64)),
              HasSubstr("offset 16 is not a multiple of 32"));
}

TEST(GgufFile, RefusesTensorsPastTheEnd) {
  EXPECT_THAT(ErrorOf(FileOf({TensorInfo("t", {16}, 0, 0)}, 63)),
              AllOf(HasSubstr("needs 64 bytes at 0"), HasSubstr("has 63")));
  EXPECT_THAT(ErrorOf(FileOf({TensorInfo("t", {16}, 0, ~std::uint64_t{31})}, 64)),
              HasSubstr("truncated"));
}

TEST(GgufFile, RefusesOverlap) {
  EXPECT_THAT(ErrorOf(FileOf({TensorInfo("b", {16}, 0, 32), TensorInfo("a", {16}, 0, 0)}, 128)),
              AllOf(HasSubstr("'a'"), HasSubstr("'b'"), HasSubstr("overlap")));
}

TEST(GgufFile, RefusesDuplicates) {
  EXPECT_THAT(ErrorOf(FileOf({TensorInfo("a", {8}, 0, 0), TensorInfo("a", {8}, 0, 32)}, 64)),
              HasSubstr("'a' occurs twice"));
}

TEST(GgufFile, RefusesLongNamesAndShowsThemSafely) {
  std::string error = ErrorOf(FileOf({TensorInfo(std::string(5000, '\n'), {8}, 0, 0)}, 64));
  EXPECT_THAT(error, HasSubstr("name has 5000 bytes"));
  EXPECT_LT(error.size(), 600u);
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST(GgufFile, RefusesBadAlignment) {
  for (std::uint32_t alignment : {0u, 24u, 0xffffffffu}) {
    GgufWriter writer;
    writer.SetU32("general.alignment", alignment);
    EXPECT_THAT(ErrorOf(writer.Finish()),
                HasSubstr("general.alignment is " + std::to_string(alignment)));
  }
  GgufWriter writer;
  writer.SetString("general.alignment", "32");
  EXPECT_THAT(ErrorOf(writer.Finish()), HasSubstr("has type string"));
}

TEST(GgufFile, RefusesAPartOfASplitModel) {
  GgufWriter writer;
  writer.SetU32("split.count", 3);
  EXPECT_THAT(ErrorOf(writer.Finish()), HasSubstr("one of 3 parts"));
}

TEST(GgufFile, ReadsEveryTypeOfAGeneratedModel) {
  for (const DTypeInfo& info : AllDTypes()) {
    tandem::testing::ModelSpec spec;
    spec.hidden = 256;
    spec.ff = 512;
    spec.layers = 1;
    tandem::testing::GeneratorOptions options;
    options.dtype = info.dtype;
    std::string text = tandem::testing::GenerateModel(spec, options).ToGguf();
    auto file = Parse(text);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->Find("blk.0.ffn_down.weight")->dtype, info.dtype);
    EXPECT_THAT(file->Find("blk.0.ffn_down.weight")->shape, ElementsAre(256, 512));
  }
}

// Written by llama.cpp's own converter.
TEST(GgufFile, ReadsASmallRealFile) {
  auto path = tandem::testing::SharedPath("models/llama-2-tiny-random.gguf");
  if (!path) GTEST_SKIP() << "llama-2-tiny-random.gguf is not in the shared data";
  auto file = GgufFile::Open(*path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->version(), 3);
  EXPECT_EQ(file->tensors().size(), 12u);
  EXPECT_THAT(file->Find("token_embd.weight")->shape, ElementsAre(32000, 8));
  EXPECT_EQ(file->metadata().GetNumberArray("tokenizer.ggml.scores")->size(), 32000u);
}

TEST(GgufFile, ReadsSmolLm2) {
  auto path = tandem::testing::SmolLm2Path();
  if (!path) GTEST_SKIP() << "the SmolLM2 file is not in the model cache";
  auto file = GgufFile::Open(*path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors().size(), 272u);
  EXPECT_THAT(file->Find("token_embd.weight")->shape, ElementsAre(49152, 576));
  EXPECT_EQ(file->Find("token_embd.weight")->dtype, DType::kQ8_0);
  EXPECT_EQ(*file->metadata().GetU64("llama.block_count"), 30u);
  EXPECT_EQ(file->metadata().GetStringArray("tokenizer.ggml.merges")->size(), 48900u);
}

}  // namespace
}  // namespace tandem::formats
