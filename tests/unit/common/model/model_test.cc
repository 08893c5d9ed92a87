#include "common/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/model/model_files.h"
#include "tests/testing/model_generator.h"
#include "tests/testing/paths.h"

namespace tandem::model {
namespace {

using testing::Arch;
using ::testing::HasSubstr;
using testing::ModelSpec;
using testing::TestModel;

class ModelTest : public ::testing::Test {
 protected:
  StatusOr<std::unique_ptr<Model>> LoadPath(const std::string& path) {
    return Model::Load(path, {.numerics = "scalar-f32", .threads = 2, .progress = nullptr});
  }
  StatusOr<std::unique_ptr<Model>> Load(const TestModel& model) {
    model.WriteGguf(folder_.File("model.gguf"));
    return LoadPath(folder_.File("model.gguf"));
  }
  static TestModel Small() { return testing::GenerateModel(ModelSpec::Of(Arch::kLlama)); }
  static std::string MessageOf(const Status& status) {
    return std::string(FromAbsl(status.message()));
  }

  testing::TempDir folder_;
};

TEST_F(ModelTest, TellsProgressUpToAll) {
  Small().WriteGguf(folder_.File("model.gguf"));
  ByteCount last{0};
  ByteCount total{0};
  auto model = Model::Load(
      folder_.File("model.gguf"),
      {.numerics = "scalar-f32", .threads = 2, .progress = [&](ByteCount done, ByteCount all) {
         EXPECT_LE(last, all);
         last = done;
         total = all;
       }});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_GT(total, ByteCount(0));
  EXPECT_EQ(last, total);
  EXPECT_GT((*model)->packed_bytes(), ByteCount(0));
}

TEST_F(ModelTest, NamesAMissingTensor) {
  TestModel model = Small();
  std::erase_if(model.tensors, [](const auto& t) { return t.gguf_name == "blk.1.ffn_up.weight"; });
  const auto loaded = Load(model);
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(loaded.status()), HasSubstr("blk.1.ffn_up.weight"));
}

TEST_F(ModelTest, NamesATensorOfAnotherShape) {
  for (const char* name : {"blk.2.attn_k.weight", "output_norm.weight", "token_embd.weight"}) {
    TestModel model = Small();
    auto tensor = std::find_if(model.tensors.begin(), model.tensors.end(),
                               [&](const auto& t) { return t.gguf_name == name; });
    ASSERT_NE(tensor, model.tensors.end());
    const std::size_t row = tensor->bytes.size() / static_cast<std::size_t>(tensor->shape[0]);
    tensor->shape.back() -= tensor->shape.size() == 1 ? 1 : 0;
    if (tensor->shape.size() == 2) std::swap(tensor->shape[0], tensor->shape[1]);
    if (tensor->shape.size() == 1) tensor->bytes.resize(tensor->bytes.size() - row);
    tensor->rope_heads = 0;
    const auto loaded = Load(model);
    EXPECT_FALSE(loaded.ok()) << name;
    EXPECT_THAT(MessageOf(loaded.status()), HasSubstr(name));
  }
}

TEST_F(ModelTest, RefusesAQuantizedNorm) {
  TestModel model = Small();
  for (auto& tensor : model.tensors) {
    if (tensor.gguf_name != "output_norm.weight") continue;
    tensor.dtype = formats::DType::kQ8_0;
    tensor.bytes.assign(96 / 32 * 34, std::byte{0});
  }
  const auto loaded = Load(model);
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(loaded.status()), HasSubstr("output_norm.weight"));
}

TEST_F(ModelTest, RefusesAnUnknownClassAndAMissingFile) {
  Small().WriteGguf(folder_.File("model.gguf"));
  EXPECT_FALSE(Model::Load(folder_.File("model.gguf"),
                           {.numerics = "avx9", .threads = 1, .progress = nullptr})
                   .ok());
  EXPECT_EQ(LoadPath(folder_.File("none.gguf")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LoadPath(folder_.path()).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ModelTest, ConfigsOfBothFormatsAgree) {
  for (Arch arch : {Arch::kLlama, Arch::kQwen2, Arch::kQwen3}) {
    const TestModel model = testing::GenerateModel(ModelSpec::Of(arch));
    testing::TempDir folder;
    model.WriteGguf(folder.File("model.gguf"));
    model.WriteHfFolder(folder.path());
    auto gguf = OpenModelFiles(folder.File("model.gguf"));
    auto hf = OpenModelFiles(folder.path());
    ASSERT_TRUE(gguf.ok()) << gguf.status();
    ASSERT_TRUE(hf.ok()) << hf.status();
    gguf->config.eos_ids.clear();
    hf->config.eos_ids.clear();
    EXPECT_EQ(gguf->config, hf->config)
        << gguf->config.ToString() << " | " << hf->config.ToString();
  }
}

}  // namespace
}  // namespace tandem::model
