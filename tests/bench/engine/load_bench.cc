// Prints what loading one model costs on this machine: seconds, and seconds per GB of its file.
//   load_bench [MODEL] [THREADS] [NUMERICS] [CACHE] [new]
//     defaults: SmolLM2 from the model cache, 2, auto, off; CACHE: an absolute folder or off
// Seven rounds in one process, the median and the extremes; the first with a new CACHE packs, the
// others find it packed. With `new`, each round packs into a folder of its own inside CACHE, which
// is removed. Run it alone on the machine, with the model's file in the page cache.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "common/model/model.h"
#include "tests/testing/paths.h"

namespace tandem {
namespace {

constexpr int kRounds = 7;

using Clock = std::chrono::steady_clock;

double FileGigabytes(const std::string& path) {
  std::uintmax_t bytes = 0;
  if (!std::filesystem::is_directory(path)) return std::filesystem::file_size(path) / 1e9;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() == ".safetensors") bytes += entry.file_size();
  }
  return static_cast<double>(bytes) / 1e9;
}

// "Rss 12 Pss 6 …" in MB, of the whole process.
std::string Memory() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::string out;
  for (std::string line; std::getline(rollup, line);) {
    std::istringstream words(line);
    std::string name;
    double kb = 0;
    words >> name >> kb;
    for (const char* wanted : {"Rss:", "Pss:", "Pss_Anon:", "Pss_File:", "Pss_Shmem:",
                               "AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:"}) {
      if (name == wanted) out += fmt::format(" {} {:.0f}", name, kb / 1000);
    }
  }
  return out;
}

int Main(const std::vector<std::string>& args) {
  const auto cached = testing::SmolLm2Path();
  if (args.empty() && !cached) {
    fmt::print(stderr, "load_bench: no model: give its path, or run deploy/quickstart once\n");
    return 1;
  }
  const std::string path = args.empty() ? *cached : args[0];
  model::Model::LoadOptions options;
  options.threads = args.size() > 1 ? std::atoi(args[1].c_str()) : 2;
  options.numerics = args.size() > 2 ? args[2] : "auto";
  if (args.size() > 3 && args[3] != "off") {
    options.weight_cache = model::WeightCache::Options{.folder = args[3]};
  }
  const std::string folder = args.size() > 4 && args[4] == "new" ? args[3] : "";
  const double gigabytes = FileGigabytes(path);
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    const std::string own = fmt::format("{}/load_bench.{}", folder, ::getpid());
    if (!folder.empty()) options.weight_cache->folder = own;
    const auto begin = Clock::now();
    const auto model = model::Model::Load(path, options);
    const std::chrono::duration<double> took = Clock::now() - begin;
    if (!model.ok()) {
      fmt::print(stderr, "load_bench: {}\n", FromAbsl(model.status().message()));
      return 1;
    }
    seconds.push_back(took.count());
    if (!folder.empty()) std::filesystem::remove_all(own);
    const model::WeightsHome& home = (*model)->weights_home();
    if (round > 1) continue;
    fmt::print("{}, {} threads, {:.3f} GB file, {} MB packed, {}, {}: {:.3f} s;{} MB\n",
               (*model)->numerics_class(), options.threads, gigabytes,
               (*model)->packed_bytes().value() / 1000000,
               home.packed ? "packed now" : "found packed",
               home.shared ? "shared" : "private: " + home.why_not, took.count(), Memory());
  }
  std::sort(seconds.begin(), seconds.end());
  fmt::print("median {:.3f} s ({:.3f} to {:.3f}), {:.3f} s per GB\n", seconds[kRounds / 2],
             seconds.front(), seconds.back(), seconds[kRounds / 2] / gigabytes);
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  return tandem::Main(std::vector<std::string>(argv + 1, argv + argc));
}
