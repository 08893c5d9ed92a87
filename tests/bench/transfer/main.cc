// Measures the transports between two processes of this host against what the machine can do.
//
//   transfer_bench [standalone] [--rounds=N] [--only=METHOD,…] [--ucx=NAME=VALUE,…]
//
// Every round runs every method once, so that all meet the same disturbances; printed are medians,
// and the median over rounds of each method's speed relative to its yardstick's in that round.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "common/base/check.h"
#include "kv_transfer/host_memory.h"
#include "tests/bench/transfer/method.h"

namespace tandem::transfer::bench {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string Yardstick(const std::string& method) {
  return method == "ucx-tcp" || method == "raw-tcp" ? "raw-tcp" : "memcpy";
}

void RunShape(const Shape& shape, int rounds, std::vector<std::unique_ptr<Method>>& methods) {
  const std::vector<Write> writes = shape.Writes();
  for (auto& method : methods) method->Run(shape, writes);  // warm: connections, pages
  std::map<std::string, std::vector<double>> speeds;        // GB/s, a round each
  for (int round = 0; round < rounds; ++round) {
    for (auto& method : methods) {
      const double seconds = method->Run(shape, writes);
      speeds[method->name()].push_back(static_cast<double>(shape.bytes()) / seconds / 1e9);
    }
  }
  std::printf("%s: %llu layers x %llu blocks x %llu B = %.0f MB, %d rounds\n", shape.name.c_str(),
              static_cast<unsigned long long>(shape.layers),
              static_cast<unsigned long long>(shape.blocks),
              static_cast<unsigned long long>(shape.block_bytes),
              static_cast<double>(shape.bytes()) / 1e6, rounds);
  for (auto& method : methods) {
    const std::vector<double>& mine = speeds[method->name()];
    const std::string yardstick = Yardstick(method->name());
    std::printf("  %-8s %6.2f GB/s (best %.2f)", method->name().c_str(), Median(mine),
                *std::max_element(mine.begin(), mine.end()));
    if (const auto base = speeds.find(yardstick);
        base != speeds.end() && yardstick != method->name()) {
      std::vector<double> ratios;
      for (std::size_t i = 0; i < mine.size(); ++i) ratios.push_back(mine[i] / base->second[i]);
      std::printf("  %3.0f %% of %s", 100 * Median(ratios), yardstick.c_str());
    }
    std::printf("\n");
  }
  std::fflush(stdout);
}

int Standalone(int rounds, const std::vector<std::string>& only, const UcxSettings& settings) {
  const std::vector<Shape> shapes = {{"small blocks", 30, 128, 12288},
                                     {"large blocks", 30, 32, 65536}};
  std::uint64_t bytes = 0;
  for (const Shape& shape : shapes) bytes = std::max(bytes, shape.bytes());
  const StatusOr<HostMemory> memory =
      HostMemory::Allocate(ByteCount(static_cast<std::int64_t>(bytes)));
  if (!memory.ok()) {
    std::fprintf(stderr, "%s\n", std::string(FromAbsl(memory.status().message())).c_str());
    return 1;
  }
  std::memset(memory->bytes().data(), 42, bytes);
  const auto wanted = [&](const char* name) {
    return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
  };
  std::vector<std::unique_ptr<Method>> methods;
  if (wanted("memcpy")) methods.push_back(MakeMemcpy(memory->bytes()));
  if (wanted("checksum")) methods.push_back(MakeChecksum(memory->bytes()));
  if (wanted("ucp-put")) methods.push_back(MakeRawPut(memory->bytes()));
  if (wanted("ucx-shm")) {
    methods.push_back(MakeTransfer(Transport::kUcxShm, memory->bytes(), {}));
  }
  if (wanted("raw-tcp")) methods.push_back(MakeRawSocket(memory->bytes()));
  if (wanted("ucx-tcp")) {
    methods.push_back(MakeTransfer(Transport::kUcxTcp, memory->bytes(), settings));
  }
  for (const Shape& shape : shapes) RunShape(shape, rounds, methods);
  return 0;
}

}  // namespace
}  // namespace tandem::transfer::bench

int main(int argc, char** argv) {
  CLI::App app("KV transfer between two processes of this host");
  int rounds = 20;
  std::vector<std::string> only;
  std::vector<std::string> ucx;
  app.require_subcommand(0, 1);
  CLI::App* standalone = app.add_subcommand("standalone", "the transports alone (the default)");
  (void)standalone;
  app.add_option("--rounds", rounds, "times each method runs")->check(CLI::Range(1, 10000));
  app.add_option("--only", only, "methods: memcpy checksum ucp-put ucx-shm raw-tcp ucx-tcp")
      ->delimiter(',');
  app.add_option("--ucx", ucx, "settings of UCX for ucx-tcp, NAME=VALUE")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  tandem::transfer::UcxSettings settings;
  for (const std::string& setting : ucx) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      std::fprintf(stderr, "--ucx: '%s' is not NAME=VALUE\n", setting.c_str());
      return 2;
    }
    settings.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
  }
  return tandem::transfer::bench::Standalone(rounds, only, settings);
}
