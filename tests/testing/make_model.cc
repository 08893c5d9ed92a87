// Writes a test model to disk, for tests that start programs.
//   make_test_model ARCH gguf|hf PATH [KEY=VALUE…]   random weights; ARCH: llama, mistral, qwen2,
//   qwen3;
//                                                    keys: dtype, seed, layers, hidden, heads,
//                                                    kv_heads, head_dim, ff, vocab, context
//   make_test_model MODEL.bin,TOK.bin gguf|hf PATH [dtype=DTYPE]   llama2.c's files
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <map>
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

struct Settings {
  ModelSpec spec;
  GeneratorOptions generator;
};

// Errors: InvalidArgument for "KEY=VALUE" with an unknown key or dtype.
Status Apply(const std::string& setting, Settings& settings) {
  const std::size_t equals = setting.find('=');
  if (equals == std::string::npos) return InvalidArgument("'{}' is not KEY=VALUE", setting);
  const std::string key = setting.substr(0, equals);
  const std::string value = setting.substr(equals + 1);
  if (key == "dtype") {
    for (const formats::DTypeInfo& info : formats::AllDTypes()) {
      if (info.name != value) continue;
      settings.generator.dtype = info.dtype;
      return OkStatus();
    }
    return InvalidArgument("no dtype {}", value);
  }
  const std::uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
  const std::map<std::string, int*> sizes = {
      {"layers", &settings.spec.layers},     {"hidden", &settings.spec.hidden},
      {"heads", &settings.spec.heads},       {"kv_heads", &settings.spec.kv_heads},
      {"head_dim", &settings.spec.head_dim}, {"ff", &settings.spec.ff},
      {"vocab", &settings.spec.vocab},       {"context", &settings.spec.context}};
  if (key == "seed") {
    settings.generator.seed = number;
  } else if (auto size = sizes.find(key); size != sizes.end() && number > 0 && number < 1 << 20) {
    *size->second = static_cast<int>(number);
  } else {
    return InvalidArgument("unknown setting {}", setting);
  }
  return OkStatus();
}

StatusOr<TestModel> Make(const std::vector<std::string>& args) {
  Settings settings;
  const std::optional<Arch> arch = ArchOf(args[0]);
  if (arch) settings.spec = ModelSpec::Of(*arch);
  for (std::size_t i = 3; i < args.size(); ++i) TANDEM_RETURN_IF_ERROR(Apply(args[i], settings));
  if (arch) return GenerateModel(settings.spec, settings.generator);
  const std::size_t comma = args[0].find(',');
  if (comma == std::string::npos) return InvalidArgument("no arch {}", args[0]);
  return LoadLlama2c(args[0].substr(0, comma), args[0].substr(comma + 1), settings.generator.dtype);
}

int Main(const std::vector<std::string>& args) {
  if (args.size() < 3 || (args[1] != "gguf" && args[1] != "hf")) {
    fmt::print(stderr, "usage: make_test_model ARCH|MODEL.bin,TOK.bin gguf|hf PATH [KEY=VALUE…]\n");
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
