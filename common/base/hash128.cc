#include "common/base/hash128.h"

#include <openssl/evp.h>

#include "common/base/check.h"

namespace tandem {

std::string Hash128::ToHex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());
  for (std::uint8_t byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  TANDEM_CHECK(context_->evp != nullptr);
  TANDEM_CHECK(EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::Update(std::span<const std::byte> bytes) {
  TANDEM_CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
  return *this;
}

Sha256& Sha256::Update(std::string_view text) {
  return Update(std::as_bytes(std::span(text.data(), text.size())));
}

Sha256& Sha256::UpdateU64(std::uint64_t value) {
  std::array<std::uint8_t, 8> le;
  for (int i = 0; i < 8; ++i) le[i] = static_cast<std::uint8_t>(value >> (8 * i));
  return Update(std::as_bytes(std::span(le)));
}

std::array<std::uint8_t, 32> Sha256::Finish() {
  std::array<std::uint8_t, 32> digest;
  unsigned int length = 0;
  TANDEM_CHECK(EVP_DigestFinal_ex(context_->evp, digest.data(), &length) == 1);
  TANDEM_CHECK(length == digest.size());
  return digest;
}

Hash128 Sha256::Finish128() {
  auto digest = Finish();
  Hash128 out;
  std::memcpy(out.bytes.data(), digest.data(), out.bytes.size());
  return out;
}

}  // namespace tandem
