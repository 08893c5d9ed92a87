#include "common/base/marked_text.h"

#include <algorithm>

namespace tandem {

MarkedText MarkedText::Trusted(std::string text) {
  MarkedText out;
  out.text_ = std::move(text);
  return out;
}

MarkedText MarkedText::FromUser(std::string text) {
  MarkedText out;
  out.text_ = std::move(text);
  if (!out.text_.empty()) out.user_.push_back({0, out.text_.size()});
  return out;
}

bool MarkedText::AnyFromUser(std::size_t begin, std::size_t end) const {
  auto it = std::partition_point(user_.begin(), user_.end(),
                                 [&](const Range& r) { return r.end <= begin; });
  return it != user_.end() && it->begin < end && begin < end;
}

MarkedText& MarkedText::operator+=(const MarkedText& other) {
  const std::size_t shift = text_.size();
  const std::vector<Range> added = other.user_;  // `other` may be this object
  text_ += other.text_;
  for (const Range& r : added) {
    if (!user_.empty() && user_.back().end == r.begin + shift) {
      user_.back().end = r.end + shift;
    } else {
      user_.push_back({r.begin + shift, r.end + shift});
    }
  }
  return *this;
}

MarkedText MarkedText::Substr(std::size_t begin, std::size_t end) const {
  end = std::min(end, text_.size());
  begin = std::min(begin, end);
  MarkedText out;
  out.text_ = text_.substr(begin, end - begin);
  auto it = std::partition_point(user_.begin(), user_.end(),
                                 [&](const Range& r) { return r.end <= begin; });
  for (; it != user_.end() && it->begin < end; ++it) {
    std::size_t b = std::max(it->begin, begin);
    std::size_t e = std::min(it->end, end);
    if (b < e) out.user_.push_back({b - begin, e - begin});
  }
  return out;
}

}  // namespace tandem
