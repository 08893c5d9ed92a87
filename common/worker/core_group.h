// A page of shared memory in which the engines that share cores tell one another what they do, one
// slot each, and the locks that say who is alive.
//
// The page is a file in /dev/shm (or /tmp without one), named by user and group; a member locks the
// byte of its slot. The kernel drops that lock when the process ends, however it ends, so a lock is
// the proof of life that needs no pid: it holds across pid namespaces, and no later process can be
// taken for an earlier one. The last member out removes the file; what a crash of all leaves is
// 4 KiB that the next life uses again. All of a new file is zero, which is a group where nobody
// computes.
//
// The words are advice on speed: nothing that is computed depends on them. Thread-safe but for Join
// and destruction; the words are atomic, read and written by any member.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/scoped_fd.h"
#include "common/base/status.h"

namespace tandem::worker {

class CoreGroup {
 public:
  static constexpr std::size_t kSlots = 32;

  struct alignas(64) Slot {
    std::atomic<std::uint32_t> bell;     // futex word: changes when the turn is given to this slot
    std::atomic<std::uint32_t> role;     // scheduler::TurnRole; 0: free
    std::atomic<std::uint32_t> waiting;  // 1: for a turn
    std::atomic<std::uint64_t> ticket;   // see scheduler::TurnMember
    std::atomic<std::uint64_t> last_turn;
    std::atomic<std::int64_t> slice_ns;
    std::atomic<std::int64_t> pulse_ns;     // when it last said something; steady clock
    std::atomic<std::int64_t> expected_ns;  // from pulse_ns, how long it may need its turn
  };
  struct Page {
    // (turn number << 8) | (holder's slot + 1); low byte 0: nobody computes. A new number with
    // every change, so that a comparison never takes an old turn for a new one.
    alignas(64) std::atomic<std::uint64_t> turn;
    std::atomic<std::int64_t> since_ns;  // when the turn was given
    alignas(64) std::atomic<std::uint64_t> next_ticket;
    Slot slots[kSlots];
  };
  static_assert(sizeof(Page) <= 4096 && std::atomic<std::uint64_t>::is_always_lock_free);

  // `name`: 1 to 64 letters, digits, '-', '_' or '.'. Errors: InvalidArgument for another name;
  // FailedPrecondition when the file is not this user's; ResourceExhausted when all slots are
  // taken; Unavailable.
  static StatusOr<std::unique_ptr<CoreGroup>> Join(const std::string& name);
  static Status CheckName(const std::string& name);
  ~CoreGroup();

  Page& page() { return *page_; }
  Slot& slot(std::size_t i) { return page_->slots[i]; }
  std::size_t own() const { return own_; }
  // Whether the process in slot `i` still runs, or is stopped; one system call.
  bool Alive(std::size_t i) const;

 private:
  CoreGroup(std::string path, ScopedFd file, std::size_t own, Page* page)
      : path_(std::move(path)), file_(std::move(file)), own_(own), page_(page) {}

  const std::string path_;
  const ScopedFd file_;
  const std::size_t own_;
  Page* const page_;
};

}  // namespace tandem::worker
