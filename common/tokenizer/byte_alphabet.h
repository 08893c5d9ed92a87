// GPT-2's reversible alphabet: every byte has a printable character, so that a byte-level
// vocabulary can be written as text. Printable Latin-1 stands for itself, the other 68 bytes are
// U+0100 upwards. Source: openai/gpt-2, encoder.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::tokenizer {

char32_t ByteToAlphabet(std::uint8_t byte);

// The bytes that `text` stands for; none if it has a character outside the alphabet.
std::optional<std::string> AlphabetToBytes(std::string_view text);

}  // namespace tandem::tokenizer
