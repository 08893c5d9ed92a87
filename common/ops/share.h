// How the threads of a pool divide an operator's work.
//
// The work is cut into units along rows and columns (rows, panels of a matrix, tiles of attention)
// and at fixed positions (segments of keys), so that no value depends on the number of threads or
// on who computes what. Each
// thread begins with an equal run of units, takes them a few at a time, and then takes from those
// who are behind: threads finish together even where cores are at different speeds or shared.
// Nothing here is a barrier: the caller puts ThreadPool::Barrier() where one operator reads what
// another wrote.
//
//   Split split(2);
//   pool.Run([&](int thread_idx, int) {
//     const Share share{&split, thread_idx};
//     share.ForEach(rows, [&](Range some) { RmsNorm(ops, {.x = hidden, …}, act, some); });
//     pool.Barrier();
//     Matmul(ops, wq, act, {.y = q}, share);  // independent of the next: no barrier between
//     Matmul(ops, wk, act, {.y = k}, share);
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace tandem::ops {

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

// What each thread has left of the work at hand. One per pool; its threads divide the same works in
// the same order. Work items are numbered, so none of this is ever reset.
class Split {
 public:
  explicit Split(int num_threads) : num_threads_(num_threads), slots_(new Slot[num_threads]) {}

  int num_threads() const { return num_threads_; }

 private:
  friend class Claims;
  // One cache line for each thread.
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> left{0};  // the work's number (16 bits), begin, end (24 each)
    std::uint16_t work = 0;              // the owner's alone: the work that it is at
  };

  int num_threads_;
  std::unique_ptr<Slot[]> slots_;
};

// A thread's place in a pool.
struct Share {
  Split* split = nullptr;  // null: the only thread
  int index = 0;

  int count() const { return split == nullptr ? 1 : split->num_threads(); }

  // Calls fn(Range) for every run of units of [0, units) that this thread gets.
  template <typename Fn>
  void ForEach(std::int64_t units, Fn&& fn) const;
};

// One thread's way through one piece of work. Every thread makes one and calls Next until it
// returns false.
class Claims {
 public:
  static constexpr std::int64_t kMaxUnits = (std::int64_t{1} << 24) - 1;

  // Requires: 0 <= units <= kMaxUnits, the same on every thread.
  Claims(Share share, std::int64_t units);

  // The next units to compute; false when none are left that this thread could take.
  bool Next(Range* units);

 private:
  struct Left {
    Range range;
    bool here;  // the word speaks of this work, or nobody has begun it there
  };
  Range Initial(int index) const;
  // What thread `index`'s word says of this work.
  Left LeftOf(std::uint64_t word, int index) const;
  // False, and *word as it is now, where another was quicker.
  bool Replace(int index, std::uint64_t* word, Range range) const;
  bool TakeOwn(Range* units);
  bool Steal(Range* units);
  bool StealFrom(int index, Range* units);

  Share share_;
  std::int64_t units_;
  std::uint16_t work_ = 0;
};

template <typename Fn>
void Share::ForEach(std::int64_t units, Fn&& fn) const {
  Claims claims(*this, units);
  for (Range some; claims.Next(&some);) fn(some);
}

}  // namespace tandem::ops
