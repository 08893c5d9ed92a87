// Prints the table of README.md: how many seeds it takes to find each mutant, and to how few faults
// its history shrinks.
//
//   museum_table [SEEDS [NAME…]]
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/museum/museum.h"

int main(int argc, char** argv) {
  namespace museum = tandem::museum;
  const std::uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 5000;
  fmt::print(
      "| mutant | rule | seeds | faults | requests | how it shows |\n|---|---|---|---|---|---|\n");
  for (std::size_t i = 0; i < museum::Catalogue().size(); ++i) {
    const museum::Entry& entry = museum::Catalogue()[i];
    const bool wanted = argc <= 2 || std::any_of(argv + 2, argv + argc, [&](const char* name) {
                          return std::string_view(name) == entry.name;
                        });
    if (!wanted) continue;
    if (*entry.test != '\0') {
      fmt::print("| {} | {} | – | – | – | `{}` |\n", entry.name, entry.rule, entry.test);
      continue;
    }
    const int number = static_cast<int>(i);
    const auto found = museum::Search(number, 1, seeds);
    if (!found) {
      fmt::print("| {} | {} | not in {} | | | |\n", entry.name, entry.rule, seeds);
    } else {
      const auto small = museum::ShrinkWith(number, tandem::sim::DrawHistory(found->seed));
      fmt::print("| {} | {} | {} | {} | {} | {} |\n", entry.name, entry.rule, found->seed,
                 small.faults.size(), small.requests, found->violation.substr(0, 90));
    }
    std::fflush(stdout);
  }
}
