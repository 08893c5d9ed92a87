#include "common/base/thread_pool.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>

#include "common/base/check.h"

namespace tandem {
namespace {

constexpr std::chrono::microseconds kSpinTime{20};
constexpr int kPausesPerClockRead = 16;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void Futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation | FUTEX_PRIVATE_FLAG, value,
          nullptr, nullptr, 0);
}

}  // namespace

void ThreadPool::Gate::Advance() {
  // Sequentially consistent on both sides: either we see the sleeper, or it sees the new value.
  value.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) > 0) Futex(value, FUTEX_WAKE, INT_MAX);
}

void ThreadPool::Gate::WaitWhile(std::uint32_t old) {
  if (value.load(std::memory_order_acquire) != old) return;
  const auto spin_end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < spin_end);
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (value.load(std::memory_order_seq_cst) == old) Futex(value, FUTEX_WAIT, old);
  sleepers.fetch_sub(1, std::memory_order_relaxed);
}

ThreadPool::ThreadPool(int num_threads) : num_threads_(num_threads) {
  TANDEM_CHECK(num_threads >= 1);
  threads_.reserve(num_threads - 1);
  for (int i = 1; i < num_threads; ++i) {
    threads_.emplace_back([this, i] { WorkerLoop(i); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  start_.Advance();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::RunErased(Call call, void* context) {
  call_ = call;
  context_ = context;
  start_.Advance();
  call(context, 0, num_threads_);
  Barrier();
}

void ThreadPool::Barrier() {
  if (num_threads_ == 1) return;
  const std::uint32_t phase = barrier_.value.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == num_threads_) {
    arrived_.store(0, std::memory_order_relaxed);  // published by Advance, before anyone returns
    barrier_.Advance();
  } else {
    barrier_.WaitWhile(phase);
  }
}

void ThreadPool::WorkerLoop(int thread_idx) {
  // Not the current value: the first Run may already have been announced.
  for (std::uint32_t runs = 0;; ++runs) {
    start_.WaitWhile(runs);
    if (stopping_) return;
    call_(context_, thread_idx, num_threads_);
    Barrier();
  }
}

}  // namespace tandem
