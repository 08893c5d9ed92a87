#include "tests/integration/nodes/small_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tests/testing/model_generator.h"

namespace tandem::testing {

const worker::LoadedModel& SmallModel() {
  static const worker::LoadedModel* const model = [] {
    const auto path = std::filesystem::temp_directory_path() /
                      fmt::format("tandem-nodes-test-{}.gguf", ::getpid());
    ModelSpec spec;
    spec.context = kSmallContext;
    GenerateModel(spec).WriteGguf(path.string());
    auto loaded = worker::LoadModel({.path = path.string(), .threads = 1});
    std::filesystem::remove(path);  // the mapping keeps the bytes
    if (!loaded.ok()) {
      fmt::print(stderr, "{}\n", FromAbsl(loaded.status().message()));
      std::abort();
    }
    return new worker::LoadedModel(*std::move(loaded));
  }();
  return *model;
}

}  // namespace tandem::testing
