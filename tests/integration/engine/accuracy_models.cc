#include "tests/integration/engine/accuracy_models.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/formats/dtype.h"
#include "tests/testing/llama2c.h"
#include "tests/testing/model_generator.h"
#include "tests/testing/paths.h"

namespace tandem::testing {
namespace {

using formats::DType;

constexpr std::size_t kTokens = 200;
constexpr std::size_t kSmolLm2Tokens = 100;  // the scalar class takes 30 ms a token

// Rows of 256, so that every type fits; untied, so that the head is of that type as well.
TestModel RandomOf(DType dtype) {
  ModelSpec spec = ModelSpec::Of(Arch::kLlama);
  spec.hidden = 256;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_dim = 64;
  spec.ff = 512;
  spec.layers = 2;
  spec.tied = false;
  GeneratorOptions options;
  options.seed = 7;
  options.dtype = dtype;
  return GenerateModel(spec, options);
}

}  // namespace

std::vector<AccuracyModel> WriteAccuracyModels(const std::string& folder) {
  std::vector<AccuracyModel> models;
  const auto add = [&](std::string_view kind, DType dtype, const TestModel& model) {
    std::string path = fmt::format("{}/{}-{}.gguf", folder, kind, formats::Name(dtype));
    model.WriteGguf(path);
    models.push_back({fmt::format("{} {}", kind, formats::Name(dtype)), std::move(path), kTokens});
  };
  const auto bin = SharedPath("models/stories260K.bin");
  const auto tok = SharedPath("models/tok512.bin");
  for (const formats::DTypeInfo& info : formats::AllDTypes()) {
    add("random", info.dtype, RandomOf(info.dtype));
    if (!bin || !tok || info.block_elems > 32) continue;  // stories260K has rows of 64
    auto stories = LoadLlama2c(*bin, *tok, info.dtype);
    TANDEM_CHECK(stories.ok());
    add("stories260k", info.dtype, *stories);
  }
  if (const auto path = SmolLm2Path()) models.push_back({"smollm2 Q4_1", *path, kSmolLm2Tokens});
  return models;
}

}  // namespace tandem::testing
