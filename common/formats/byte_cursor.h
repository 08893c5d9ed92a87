// Reads little-endian fields from a span, never past its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace tandem::formats {

class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }

  // Nothing, and no movement, when fewer bytes remain.
  template <typename T>
  std::optional<T> Read() {
    static_assert(std::is_arithmetic_v<T>);
    auto raw = Take(sizeof(T));
    if (!raw) return std::nullopt;
    T value;
    std::memcpy(&value, raw->data(), sizeof(T));  // this code runs on little-endian machines only
    return value;
  }

  std::optional<std::span<const std::byte>> Take(std::uint64_t count) {
    if (count > remaining()) return std::nullopt;
    auto out = bytes_.subspan(position_, count);
    position_ += count;
    return out;
  }

  // A u64 length, then that many bytes.
  std::optional<std::string_view> ReadString() {
    std::size_t start = position_;
    auto length = Read<std::uint64_t>();
    if (!length) return std::nullopt;
    auto raw = Take(*length);
    if (!raw) {
      position_ = start;
      return std::nullopt;
    }
    return std::string_view(reinterpret_cast<const char*>(raw->data()), raw->size());
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
};

}  // namespace tandem::formats
