// Keys by the time at which something is due: leases, deadlines, grace periods. Setting a key again
// moves it, so a renewed lease never hides the ones behind it. Equal times come in key order. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/base/time.h"

namespace tandem::handoff {

template <typename Key>
class DeadlineQueue {
 public:
  void Set(const Key& key, Time at) {
    auto [it, is_new] = times_.try_emplace(key, at);
    if (!is_new) {
      if (it->second == at) return;
      order_.erase({it->second, key});
      it->second = at;
    }
    order_.insert({at, key});
  }
  void Remove(const Key& key) {
    auto it = times_.find(key);
    if (it == times_.end()) return;
    order_.erase({it->second, key});
    times_.erase(it);
  }
  Time next() const { return order_.empty() ? kNever : order_.begin()->first; }
  // Takes the earliest key that is due at `now`.
  std::optional<Key> Pop(Time now) {
    if (order_.empty() || order_.begin()->first > now) return std::nullopt;
    Key key = order_.begin()->second;
    order_.erase(order_.begin());
    times_.erase(key);
    return key;
  }
  std::size_t size() const { return times_.size(); }

 private:
  std::set<std::pair<Time, Key>> order_;
  absl::flat_hash_map<Key, Time> times_;
};

}  // namespace tandem::handoff
