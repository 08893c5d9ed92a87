// Writes the fuzz targets' first inputs: make_fuzz_seeds FOLDER makes FOLDER/TARGET/N.
#include <filesystem>
#include <string>

#include "tests/testing/gguf_writer.h"
#include "tests/testing/model_generator.h"
#include "tests/testing/paths.h"
#include "tests/testing/quantize.h"
#include "tests/testing/safetensors_writer.h"
#include "tests/testing/test_tokenizer.h"

namespace tandem::testing {
namespace {

void Seed(const std::string& folder, const std::string& target, const std::string& text) {
  std::string into = folder + "/" + target;
  std::filesystem::create_directories(into);
  int number = 0;
  while (std::filesystem::exists(into + "/" + std::to_string(number))) ++number;
  WriteFile(into + "/" + std::to_string(number), text);
}

std::vector<std::byte> SmallTensor(formats::DType dtype) {
  std::vector<float> values(static_cast<std::size_t>(formats::Info(dtype).block_elems) * 2, 0.5f);
  return Quantize(dtype, values);
}

// Small enough to mutate well: one tensor of each type, one pair of each type.
void SeedGguf(const std::string& folder) {
  GgufWriter pairs(2, 8);
  pairs.SetString("general.architecture", "llama");
  pairs.SetU32("u32", 7);
  pairs.SetU64("u64", 7);
  pairs.SetF32("f32", 0.5f);
  pairs.SetBool("bool", true);
  pairs.SetStrings("strings", {"a", "", "bc"});
  pairs.SetInts("ints", std::vector<std::int32_t>{1, -1});
  pairs.SetFloats("floats", std::vector<float>{1, -1});
  pairs.SetRaw("i8", formats::GgufType::kI8, "\x80");
  pairs.SetRaw("f64", formats::GgufType::kF64, std::string(8, '\x7f'));
  Seed(folder, "gguf", pairs.Finish());
  for (const formats::DTypeInfo& info : formats::AllDTypes()) {
    GgufWriter writer;
    std::vector<std::byte> bytes = SmallTensor(info.dtype);
    writer.AddTensor("a", info.dtype, {2, info.block_elems}, bytes);
    writer.AddTensor("b", info.dtype, {2 * info.block_elems}, bytes);
    Seed(folder, "gguf", writer.Finish());
  }
}

void SeedSafetensors(const std::string& folder) {
  for (formats::DType dtype : {formats::DType::kF32, formats::DType::kBF16, formats::DType::kF16}) {
    SafetensorsWriter writer;
    std::vector<std::byte> bytes = SmallTensor(dtype);
    writer.AddTensor("a", dtype, {2, 1}, bytes);
    writer.AddTensor("b", dtype, {2}, bytes);
    writer.AddTensor("c", dtype, {0}, {});
    Seed(folder, "safetensors", writer.Finish());
  }
  Seed(folder, "safetensors", SafetensorsBytes("{}", ""));
}

void SeedText(const std::string& folder) {
  TestModel model = GenerateModel(ModelSpec::Of(Arch::kQwen3));
  Seed(folder, "json", model.ConfigJson());
  Seed(folder, "json", R"([1,-2.5e3,"\u0061\ud83d\ude80",true,null,{"a":{"a":[]}}])");
  Seed(folder, "tokenizer", model.tokenizer.TokenizerJson());
  Seed(folder, "template", std::string(ChatMlTemplate()));
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  tandem::testing::SeedGguf(argv[1]);
  tandem::testing::SeedSafetensors(argv[1]);
  tandem::testing::SeedText(argv[1]);
  return 0;
}
