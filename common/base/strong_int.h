// Integers that do not mix: BlockId, TokenCount, ByteCount. Explicit both ways.
//
//   struct BlockIdTag {};
//   using BlockId = StrongInt<BlockIdTag, std::int32_t>;
#pragma once

#include <fmt/core.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

namespace tandem {

template <typename Tag, typename Rep>
class StrongInt {
 public:
  using RepType = Rep;

  constexpr StrongInt() = default;
  constexpr explicit StrongInt(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }

  constexpr auto operator<=>(const StrongInt&) const = default;
  constexpr StrongInt& operator++() {
    ++value_;
    return *this;
  }
  constexpr StrongInt& operator+=(StrongInt other) {
    value_ += other.value_;
    return *this;
  }
  constexpr StrongInt& operator-=(StrongInt other) {
    value_ -= other.value_;
    return *this;
  }
  friend constexpr StrongInt operator+(StrongInt a, StrongInt b) { return a += b; }
  friend constexpr StrongInt operator-(StrongInt a, StrongInt b) { return a -= b; }

 private:
  Rep value_{};
};

template <typename T>
struct IsStrongInt : std::false_type {};
template <typename Tag, typename Rep>
struct IsStrongInt<StrongInt<Tag, Rep>> : std::true_type {};

template <typename H, typename Tag, typename Rep>
H AbslHashValue(H state, StrongInt<Tag, Rep> value) {
  return H::combine(std::move(state), value.value());
}

}  // namespace tandem

template <typename Tag, typename Rep>
struct std::hash<tandem::StrongInt<Tag, Rep>> {
  std::size_t operator()(tandem::StrongInt<Tag, Rep> v) const noexcept {
    return std::hash<Rep>{}(v.value());
  }
};

// Prints the bare number.
template <typename Tag, typename Rep>
struct fmt::formatter<tandem::StrongInt<Tag, Rep>> : fmt::formatter<Rep> {
  template <typename Context>
  auto format(tandem::StrongInt<Tag, Rep> v, Context& context) const {
    return fmt::formatter<Rep>::format(v.value(), context);
  }
};
