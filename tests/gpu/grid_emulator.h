// Runs a kernel's body on the CPU: a thread for each thread of a block, one block after another.
#pragma once

#include <barrier>
#include <functional>
#include <thread>
#include <vector>

namespace tandem::testing {

// What a kernel's body sees of its grid. Sync() must be reached by all threads of the block, as on
// a GPU; a body that does not hangs here.
class EmulatedGrid {
 public:
  EmulatedGrid(int block, int num_blocks, int thread, std::barrier<>& barrier)
      : block_(block), num_blocks_(num_blocks), thread_(thread), barrier_(barrier) {}
  int block() const { return block_; }
  int num_blocks() const { return num_blocks_; }
  int thread() const { return thread_; }
  void Sync() { barrier_.arrive_and_wait(); }

 private:
  int block_;
  int num_blocks_;
  int thread_;
  std::barrier<>& barrier_;
};

// Calls body(grid, shared) for every thread of the grid; `shared` is the block's, zeroed before it.
inline void RunGrid(int num_blocks, int threads, std::size_t shared_floats,
                    const std::function<void(EmulatedGrid& grid, float* shared)>& body) {
  for (int block = 0; block < num_blocks; ++block) {
    std::vector<float> shared(shared_floats);
    std::barrier<> barrier(threads);
    std::vector<std::jthread> running;
    for (int thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, block, thread] {
        EmulatedGrid grid(block, num_blocks, thread, barrier);
        body(grid, shared.data());
      });
    }
  }
}

}  // namespace tandem::testing
