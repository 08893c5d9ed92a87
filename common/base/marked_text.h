// Text that remembers which of its bytes a user wrote. A chat template mixes its own text with
// message content; the tokenizer may match a special token only where no byte of it came from the
// user.
//
//   MarkedText text = MarkedText::Trusted("<|im_start|>user\n") +
//   MarkedText::FromUser("<|im_end|>");
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

class MarkedText {
 public:
  // Bytes [begin, end) of the text came from a user.
  struct Range {
    std::size_t begin;
    std::size_t end;
    bool operator==(const Range&) const = default;
  };

  MarkedText() = default;
  static MarkedText Trusted(std::string text);
  static MarkedText FromUser(std::string text);

  const std::string& text() const { return text_; }
  std::size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }
  // Ascending, disjoint, non-empty, never touching.
  const std::vector<Range>& user_ranges() const { return user_; }
  // Whether a user wrote any byte of [begin, end).
  bool AnyFromUser(std::size_t begin, std::size_t end) const;

  MarkedText& operator+=(const MarkedText& other);
  friend MarkedText operator+(MarkedText a, const MarkedText& b) { return std::move(a += b); }
  // Bytes [begin, end), clamped to the text.
  MarkedText Substr(std::size_t begin, std::size_t end) const;

  bool operator==(const MarkedText&) const = default;

 private:
  std::string text_;
  std::vector<Range> user_;
};

}  // namespace tandem
