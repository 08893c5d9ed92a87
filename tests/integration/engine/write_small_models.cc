// Writes the models of SmallModels() for reference/make_small_models.py: write_small_models FOLDER
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tests/integration/engine/small_models.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: write_small_models FOLDER\n");
    return 2;
  }
  std::filesystem::create_directories(argv[1]);
  for (const auto& [name, model] : tandem::testing::SmallModels()) {
    model.WriteGguf(fmt::format("{}/{}.gguf", argv[1], name));
  }
}
