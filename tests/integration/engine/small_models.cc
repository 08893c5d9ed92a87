#include "tests/integration/engine/small_models.h"

#include <map>
#include <utility>

#include "tests/testing/model_generator.h"

namespace tandem::testing {
namespace {

using formats::DType;

SmallModel Make(std::string name, const ModelSpec& spec, DType dtype,
                std::map<std::string, DType> dtype_of = {}) {
  GeneratorOptions options;
  options.seed = 100 + name.size();
  options.dtype = dtype;
  options.dtype_of = std::move(dtype_of);
  return {std::move(name), GenerateModel(spec, options)};
}

SmallModel Scaled(std::string name, Arch arch, RopeScaling scaling) {
  ModelSpec spec = ModelSpec::Of(arch);
  spec.rope_scaling = scaling;
  spec.rope_original_context = 32;
  return Make(std::move(name), spec, DType::kF32);
}

SmallModel Window() {
  ModelSpec spec = ModelSpec::Of(Arch::kMistral);
  spec.sliding_window = 24;
  return Make("window", spec, DType::kBF16);
}

SmallModel WideHeads() {
  ModelSpec spec = ModelSpec::Of(Arch::kQwen3);
  spec.head_dim = 32;  // q is wider than hidden
  return Make("qwen3 qk norm", spec, DType::kBF16);
}

SmallModel AllBiases() {
  ModelSpec spec = ModelSpec::Of(Arch::kLlama);
  spec.qkv_bias = true;
  spec.o_bias = true;
  spec.mlp_bias = true;
  return Make("llama biases", spec, DType::kF16);
}

SmallModel KQuants() {
  ModelSpec spec = ModelSpec::Of(Arch::kLlama);
  spec.hidden = 256;
  spec.ff = 512;
  spec.layers = 2;
  spec.tied = false;
  return Make("k quants", spec, DType::kQ4_K,
              {{"v_proj.weight", DType::kQ6_K},
               {"down_proj.weight", DType::kQ6_K},
               {"up_proj.weight", DType::kQ5_K},
               {"lm_head.weight", DType::kQ6_K}});
}

SmallModel Quants() {
  return Make("quants", ModelSpec::Of(Arch::kLlama), DType::kQ4_1,
              {{"q_proj.weight", DType::kQ4_0},
               {"v_proj.weight", DType::kQ5_1},
               {"down_proj.weight", DType::kQ5_0},
               {"embed_tokens.weight", DType::kQ8_0}});
}

}  // namespace

std::vector<SmallModel> SmallModels() {
  std::vector<SmallModel> models;
  models.push_back(Scaled("linear", Arch::kLlama, RopeScaling::kLinear));
  models.push_back(Scaled("llama3", Arch::kLlama, RopeScaling::kLlama3));
  models.push_back(Scaled("yarn", Arch::kQwen2, RopeScaling::kYarn));
  models.push_back(Window());
  models.push_back(Make("qwen2 biases", ModelSpec::Of(Arch::kQwen2), DType::kF16));
  models.push_back(WideHeads());
  models.push_back(AllBiases());
  models.push_back(KQuants());
  models.push_back(Quants());
  return models;
}

}  // namespace tandem::testing
