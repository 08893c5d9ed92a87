// Looks for a seed whose history shows a mutant, and for the fewest faults that do.
//
// Each history runs in a child process: a mutant may abort, crash or never end, which shows it as
// well as a broken invariant does. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "deploy/sim/simulation.h"

namespace tandem::museum {

struct Entry {
  const char* name;
  const char* rule;     // that it leaves out
  const char* missing;  // a file that has not the text to change any more; "": none
  std::uint64_t seed;   // where it was found
  const char* test;     // of the machines, that finds it where no history does; "": histories do
};
std::span<const Entry> Catalogue();

struct Find {
  std::uint64_t seed = 0;
  std::string violation;
};
// Runs the histories of seeds [first, first + count) with mutant `number` (-1: none) until one
// breaks that does not break without it.
std::optional<Find> Search(int number, std::uint64_t first, std::uint64_t count);

// The history with as few faults, then requests, as still show the mutant.
sim::SimOptions ShrinkWith(int number, sim::SimOptions options);

}  // namespace tandem::museum
