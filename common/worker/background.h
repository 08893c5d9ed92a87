// One thread for work that must wait for nobody and delay nobody: checksums.
#pragma once

#include <utility>

#include "common/net/io_threads.h"
#include "common/net/strand.h"

namespace tandem::worker {

// Thread-safe. Work runs in order; its results are posted to where they belong.
class Background {
 public:
  Background() : io_(1), strand_(io_) {}
  void Post(net::Closure work) { strand_.Post(std::move(work)); }
  // Ends after the work that runs; what waits is dropped.
  void Stop() { io_.Stop(); }

 private:
  net::IoThreads io_;
  net::Strand strand_;
};

}  // namespace tandem::worker
