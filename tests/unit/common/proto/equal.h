// Compares messages field by field, also those that do not compare themselves.
#pragma once

#include <algorithm>
#include <boost/pfr.hpp>
#include <concepts>
#include <memory>
#include <vector>

namespace tandem::proto {

template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <typename T>
inline constexpr bool kIsShared = false;
template <typename T>
inline constexpr bool kIsShared<std::shared_ptr<T>> = true;

template <typename T>
bool Equal(const T& a, const T& b) {
  if constexpr (kIsVector<T>) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const auto& x, const auto& y) { return Equal(x, y); });
  } else if constexpr (kIsShared<T>) {
    return Equal(*a, *b);
  } else if constexpr (std::equality_comparable<T>) {
    return a == b;
  } else {
    bool equal = true;
    boost::pfr::for_each_field(a, [&](const auto& field, auto index) {
      equal = equal && Equal(field, boost::pfr::get<decltype(index)::value>(b));
    });
    return equal;
  }
}

}  // namespace tandem::proto
