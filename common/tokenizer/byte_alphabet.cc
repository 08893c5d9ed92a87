#include "common/tokenizer/byte_alphabet.h"

#include <array>

#include "common/base/utf8.h"

namespace tandem::tokenizer {
namespace {

constexpr int kSize = 0x100 + 68;

struct Tables {
  std::array<char32_t, 256> to_char{};
  std::array<std::int16_t, kSize> to_byte{};

  constexpr Tables() {
    to_byte.fill(-1);
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      to_char[b] = printable ? static_cast<char32_t>(b) : next++;
      to_byte[to_char[b]] = static_cast<std::int16_t>(b);
    }
  }
};

constexpr Tables kTables;

}  // namespace

char32_t ByteToAlphabet(std::uint8_t byte) { return kTables.to_char[byte]; }

std::optional<std::string> AlphabetToBytes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t pos = 0; pos < text.size();) {
    const Utf8Char c = ScanUtf8(text, pos);
    if (c.kind != Utf8Char::Kind::kValid || c.code >= kSize || kTables.to_byte[c.code] < 0) {
      return std::nullopt;
    }
    out.push_back(static_cast<char>(kTables.to_byte[c.code]));
    pos += c.length;
  }
  return out;
}

}  // namespace tandem::tokenizer
