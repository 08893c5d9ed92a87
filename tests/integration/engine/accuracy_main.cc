// Compares the CPU classes, and another program, with the scalar class in f32. For
// tests/bench/versus --accuracy, which runs llama.cpp between the two:
//   accuracy write FOLDER      writes the models of the accuracy test and their texts' ids,
//   NAME.ids accuracy compare FOLDER    prints a JSON line a model: each class, and NAME.logits
//   (f32, a row
//                              after each id but the last) where another program left it
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>

#include "common/base/check.h"
#include "common/base/cpu_features.h"
#include "common/ops/numerics_class.h"
#include "tests/integration/engine/accuracy.h"
#include "tests/integration/engine/accuracy_models.h"

namespace tandem::testing {
namespace {

std::string Stem(const std::string& folder, const AccuracyModel& model) {
  return fmt::format("{}/{}", folder, std::filesystem::path(model.path).stem().string());
}

void Write(const std::string& folder) {
  for (const AccuracyModel& model : WriteAccuracyModels(folder)) {
    std::ofstream ids(Stem(folder, model) + ".ids");
    for (const TokenId id : OpeningIds(model.path, model.tokens)) ids << id.value() << '\n';
    fmt::print("{}\t{}\t{}\n", model.name, model.path, Stem(folder, model));
  }
}

LogitRows RowsIn(const AccuracyModel& model, std::string_view numerics, const TokenIds& ids) {
  auto loaded = model::Model::Load(
      model.path, {.numerics = std::string(numerics), .threads = 2, .progress = nullptr});
  TANDEM_CHECK(loaded.ok());
  return RowsOf(**loaded, ids);
}

std::optional<LogitRows> ReadRows(const std::string& path, std::size_t rows, std::size_t width) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  LogitRows out(rows, std::vector<float>(width));
  for (std::vector<float>& row : out) {
    in.read(reinterpret_cast<char*>(row.data()),
            static_cast<std::streamsize>(width * sizeof(float)));
  }
  TANDEM_CHECK(in.good() && in.peek() == std::ifstream::traits_type::eof());
  return out;
}

boost::json::object JsonOf(const Accuracy& accuracy) {
  return {{"perplexity", std::exp(accuracy.log_perplexity)},
          {"divergence", accuracy.divergence},
          {"worst", accuracy.worst}};
}

void Compare(const std::string& folder) {
  for (const AccuracyModel& model : WriteAccuracyModels(folder)) {
    const TokenIds ids = OpeningIds(model.path, model.tokens);
    const LogitRows reference = RowsIn(model, "scalar-f32", ids);
    boost::json::object classes;
    for (const ops::NumericsClass numerics : ops::SupportedClasses(DetectCpuFeatures())) {
      const std::string_view name = ops::Name(numerics);
      classes[name] = JsonOf(AccuracyOf(reference, RowsIn(model, name, ids), ids));
    }
    boost::json::object line = {
        {"model", model.name}, {"tokens", ids.size()}, {"classes", std::move(classes)}};
    for (const std::string_view kv : {"f16", "bf16"}) {
      const auto peer = ReadRows(fmt::format("{}.{}", Stem(folder, model), kv), reference.size(),
                                 reference[0].size());
      if (peer) line[kv] = JsonOf(AccuracyOf(reference, *peer, ids));
    }
    fmt::print("{}\n", boost::json::serialize(line));
  }
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) {
  const std::string what = argc == 3 ? argv[1] : "";
  if (what != "write" && what != "compare") {
    fmt::print(stderr, "usage: accuracy write|compare FOLDER\n");
    return 2;
  }
  std::filesystem::create_directories(argv[2]);
  if (what == "write") {
    tandem::testing::Write(argv[2]);
  } else {
    tandem::testing::Compare(argv[2]);
  }
  return 0;
}
