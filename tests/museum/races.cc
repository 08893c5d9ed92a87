// The machines' own tests of named races, with a mutant running.
//
//   museum_races MUTANT --gtest_filter=TEST     MUTANT: its number in the catalogue; -1: none
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/museum/active.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) return 2;
  tandem::museum::active = std::atoi(argv[1]);
  const int failed = RUN_ALL_TESTS();
  return testing::UnitTest::GetInstance()->test_to_run_count() == 0 ? 3 : failed;
}
