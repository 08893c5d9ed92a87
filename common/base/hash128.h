// 128 bits of SHA-256: names blocks, model instances and files by content.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

struct Hash128 {
  std::array<std::uint8_t, 16> bytes{};
  auto operator<=>(const Hash128&) const = default;
  std::string ToHex() const;  // 32 digits
};

template <typename H>
H AbslHashValue(H state, const Hash128& hash) {
  return H::combine(std::move(state), hash.bytes);
}

// Incremental SHA-256 (OpenSSL).
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  Sha256& Update(std::span<const std::byte> bytes);
  Sha256& Update(std::string_view text);
  Sha256& UpdateU64(std::uint64_t value);  // 8 bytes, little-endian
  // Ends the digest; the object may only be destroyed or assigned afterwards.
  std::array<std::uint8_t, 32> Finish();
  Hash128 Finish128();  // the first 16 bytes

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace tandem

template <>
struct std::hash<tandem::Hash128> {
  std::size_t operator()(const tandem::Hash128& h) const noexcept {
    std::size_t out;
    std::memcpy(&out, h.bytes.data(), sizeof out);
    return out;
  }
};
