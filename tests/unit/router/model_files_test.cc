#include "router/model_files.h"

#include <gtest/gtest.h>

#include "tests/testing/gguf_writer.h"
#include "tests/testing/paths.h"
#include "tests/testing/test_tokenizer.h"

namespace tandem::router {
namespace {

std::string Gguf(std::optional<std::uint32_t> context) {
  testing::GgufWriter writer;
  writer.SetString("general.architecture", "llama");
  if (context) writer.SetU32("llama.context_length", *context);
  testing::MakeBpeTokenizer().AddTo(writer);
  return writer.Finish();
}

TEST(ModelFilesTest, ReadsAGgufFilesTokenizerAndContext) {
  testing::TempDir folder;
  testing::WriteFile(folder.File("m.gguf"), Gguf(777));
  auto files = ReadModelFiles(folder.File("m.gguf"));
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->context, TokenCount(777));
  EXPECT_GT(files->tokenizer.vocab_size(), TokenCount(256));
}

TEST(ModelFilesTest, ReadsAFolder) {
  testing::TempDir folder;
  testing::WriteFile(folder.File("config.json"), R"({"max_position_embeddings":321})");
  testing::WriteFile(folder.File("tokenizer.json"), testing::MakeBpeTokenizer().TokenizerJson());
  testing::WriteFile(folder.File("tokenizer_config.json"),
                     testing::MakeBpeTokenizer().ConfigJson());
  auto files = ReadModelFiles(folder.path());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->context, TokenCount(321));
}

TEST(ModelFilesTest, SaysWhatIsWrong) {
  testing::TempDir folder;
  EXPECT_EQ(ReadModelFiles(folder.File("none")).status().code(), absl::StatusCode::kNotFound);
  testing::WriteFile(folder.File("m.gguf"), Gguf(std::nullopt));
  EXPECT_NE(ReadModelFiles(folder.File("m.gguf")).status().ToString().find("context_length"),
            std::string::npos);
  testing::WriteFile(folder.File("zero.gguf"), Gguf(0));
  EXPECT_FALSE(ReadModelFiles(folder.File("zero.gguf")).ok());
  testing::WriteFile(folder.File("not.gguf"), "text");
  EXPECT_FALSE(ReadModelFiles(folder.File("not.gguf")).ok());
}

TEST(ModelFilesTest, NamesAModelAfterItsFile) {
  EXPECT_EQ(ModelName("/a/b/SmolLM2.Q4_1.gguf"), "SmolLM2.Q4_1");
  EXPECT_EQ(ModelName("/a/folder/"), "folder");
  EXPECT_EQ(ModelName("folder"), "folder");
}

}  // namespace
}  // namespace tandem::router
