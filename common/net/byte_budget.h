// A bound on the bytes that many keep at the same time. Each says how much it keeps, before it
// keeps more, and gives that back when its Hold is destroyed, on whatever thread. Thread-safe; a
// Hold is used by one thread at a time.
//
//   auto budget = std::make_shared<ByteBudget>(256 << 20);
//   ByteBudget::Hold hold(budget);
//   if (!hold.Resize(body.capacity())) …  // no room: nothing changed
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace tandem::net {

class ByteBudget {
 public:
  explicit ByteBudget(std::size_t limit) : limit_(limit) {}
  std::size_t limit() const { return limit_; }
  std::size_t used() const { return used_.load(std::memory_order_relaxed); }

  class Hold {
   public:
    Hold() = default;  // of no budget: nothing is counted
    explicit Hold(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
    Hold(Hold&& other) noexcept
        : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Hold() {
      if (budget_ != nullptr) budget_->Take(-static_cast<std::ptrdiff_t>(bytes_));
    }

    // Whether there is room for `bytes` instead of what it held; less always fits.
    bool Resize(std::size_t bytes) {
      const auto more = static_cast<std::ptrdiff_t>(bytes) - static_cast<std::ptrdiff_t>(bytes_);
      if (budget_ == nullptr || !budget_->Take(more)) return budget_ == nullptr;
      bytes_ = bytes;
      return true;
    }

   private:
    std::shared_ptr<ByteBudget> budget_;  // shared: a hold may outlive who set the bound
    std::size_t bytes_ = 0;
  };

 private:
  bool Take(std::ptrdiff_t more) {
    const std::size_t before =
        used_.fetch_add(static_cast<std::size_t>(more), std::memory_order_relaxed);
    if (more <= 0 || before + static_cast<std::size_t>(more) <= limit_) return true;
    used_.fetch_sub(static_cast<std::size_t>(more), std::memory_order_relaxed);
    return false;
  }

  const std::size_t limit_;
  std::atomic<std::size_t> used_{0};
};

}  // namespace tandem::net
