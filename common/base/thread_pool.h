// One persistent set of threads that runs a function together, with a barrier inside.
//
//   ThreadPool pool(2);
//   pool.Run([&](int thread_idx, int num_threads) {
//     FirstHalf(thread_idx, num_threads);
//     pool.Barrier();  // every thread's first half is done and visible
//     SecondHalf(thread_idx, num_threads);
//   });
//
// The calling thread is thread 0. Waits spin for at most 20 us and then sleep on a futex, so that
// two pools can share the same cores. Run and Barrier allocate nothing. Threads inherit the
// creator's scheduling policy and nice value.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace tandem {

class ThreadPool {
 public:
  // Starts num_threads - 1 threads. Requires: num_threads >= 1.
  explicit ThreadPool(int num_threads);
  // Requires: no Run in progress.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }

  // Calls fn(thread_idx, num_threads) once on every thread; returns when all have returned.
  // Requires: one Run at a time, not from inside a Run; every thread passes the same barriers.
  template <typename Fn>
  void Run(Fn&& fn) {
    using Function = std::remove_reference_t<Fn>;
    RunErased([](void* context, int thread_idx,
                 int num_threads) { (*static_cast<Function*>(context))(thread_idx, num_threads); },
              const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
  }

  // Waits until every thread of the Run in progress has called it. Requires: called inside Run.
  void Barrier();

 private:
  using Call = void (*)(void* context, int thread_idx, int num_threads);

  // A counter that threads wait on to change. 64-byte lines apart: each has its own traffic.
  struct alignas(64) Gate {
    std::atomic<std::uint32_t> value{0};
    std::atomic<std::int32_t> sleepers{0};
    void Advance();                     // adds one and wakes the sleepers
    void WaitWhile(std::uint32_t old);  // returns once value != old
  };

  void RunErased(Call call, void* context);
  void WorkerLoop(int thread_idx);

  const int num_threads_;
  Gate start_;    // advanced by Run, and once more by the destructor
  Gate barrier_;  // advanced by the last thread to arrive
  alignas(64) std::atomic<int> arrived_{0};
  Call call_ = nullptr;  // written before start_ advances, read after
  void* context_ = nullptr;
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // [num_threads - 1]
};

}  // namespace tandem
