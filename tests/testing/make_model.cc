// Writes a test model to disk, for tests that start programs.
//   make_test_model ARCH gguf|hf PATH [DTYPE] [SEED]      random weights; ARCH: llama mistral qwen2
//   qwen3 make_test_model MODEL.bin,TOK.bin gguf|hf PATH [DTYPE]   llama2.c's files
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/testing/llama2c.h"
#include "tests/testing/model_generator.h"
#include "tests/testing/test_model.h"

namespace tandem::testing {
namespace {

std::optional<Arch> ArchOf(const std::string& name) {
  if (name == "llama") return Arch::kLlama;
  if (name == "mistral") return Arch::kMistral;
  if (name == "qwen2") return Arch::kQwen2;
  if (name == "qwen3") return Arch::kQwen3;
  return std::nullopt;
}

StatusOr<TestModel> Make(const std::vector<std::string>& args) {
  formats::DType dtype = formats::DType::kF32;
  if (args.size() > 3) {
    bool found = false;
    for (const formats::DTypeInfo& info : formats::AllDTypes()) {
      if (info.name == args[3]) {
        dtype = info.dtype;
        found = true;
      }
    }
    if (!found) return InvalidArgument("no dtype {}", args[3]);
  }
  if (auto arch = ArchOf(args[0])) {
    GeneratorOptions options;
    options.dtype = dtype;
    if (args.size() > 4) options.seed = std::strtoull(args[4].c_str(), nullptr, 10);
    return GenerateModel(ModelSpec::Of(*arch), options);
  }
  auto comma = args[0].find(',');
  if (comma == std::string::npos) return InvalidArgument("no arch {}", args[0]);
  return LoadLlama2c(args[0].substr(0, comma), args[0].substr(comma + 1), dtype);
}

int Main(const std::vector<std::string>& args) {
  if (args.size() < 3 || (args[1] != "gguf" && args[1] != "hf")) {
    fmt::print(stderr,
               "usage: make_test_model ARCH|MODEL.bin,TOK.bin gguf|hf PATH [DTYPE] [SEED]\n");
    return 2;
  }
  auto model = Make(args);
  if (!model.ok()) {
    fmt::print(stderr, "make_test_model: {}\n", FromAbsl(model.status().message()));
    return 1;
  }
  if (args[1] == "gguf") {
    model->WriteGguf(args[2]);
  } else {
    std::filesystem::create_directories(args[2]);
    model->WriteHfFolder(args[2], 2);
  }
  return 0;
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) {
  return tandem::testing::Main(std::vector<std::string>(argv + 1, argv + argc));
}
