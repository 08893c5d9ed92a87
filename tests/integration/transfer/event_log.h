// Collects a transport's events for a test to wait for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "kv_transfer/transfer.h"

namespace tandem::transfer {

// Long enough to be only ever reached by a hang.
inline constexpr std::chrono::seconds kPatience{60};

template <typename Event>
class EventLog {
 public:
  std::function<void(const Event&)> Sink() {
    return [this](const Event& event) {
      std::lock_guard lock(mutex_);
      events_.push_back(event);
      changed_.notify_all();
    };
  }
  // Removes and returns the first event of kind E that `matches`; nothing when none comes.
  template <typename E>
  std::optional<E> Wait(std::function<bool(const E&)> matches = [](const E&) { return true; }) {
    std::unique_lock lock(mutex_);
    std::optional<E> found;
    changed_.wait_for(lock, kPatience, [&] {
      for (auto it = events_.begin(); it != events_.end(); ++it) {
        const E* event = std::get_if<E>(&*it);
        if (event != nullptr && matches(*event)) {
          found = *event;
          events_.erase(it);
          return true;
        }
      }
      return false;
    });
    return found;
  }
  template <typename E>
  std::size_t Count() {
    std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const Event& event : events_) count += std::holds_alternative<E>(event) ? 1 : 0;
    return count;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Event> events_;
};

}  // namespace tandem::transfer
