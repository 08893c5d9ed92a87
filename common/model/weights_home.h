// Where a loaded model's packed weights lie.
#pragma once

#include <string>

namespace tandem::model {

struct WeightsHome {
  bool shared = false;  // in a file of the cache, else in this process's memory
  bool packed = false;  // by this process, else found so
  bool denied = false;  // sharing was asked for and worth while, but did not work
  std::string file;     // of the cache, if shared
  std::string why_not;  // shared
  std::string damage;   // of a file of the cache that had to be replaced; mostly empty
};

}  // namespace tandem::model
