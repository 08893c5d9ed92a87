#include "common/client/sse_parser.h"

#include <utility>

namespace tandem::client {

Status SseParser::Feed(std::string_view bytes,
                       const std::function<void(std::string_view)>& on_data) {
  for (char c : bytes) {
    if (std::exchange(after_cr_, c == '\r') && c == '\n') continue;  // the LF of a CR LF
    if (c == '\n' || c == '\r') {
      EndLine(on_data);
      continue;
    }
    line_ += c;
    if (line_.size() + data_.size() > kMaxEventBytes) {
      return ResourceExhausted("an event of the stream is over {} bytes", kMaxEventBytes);
    }
  }
  return OkStatus();
}

void SseParser::EndLine(const std::function<void(std::string_view)>& on_data) {
  std::string_view line = line_;
  if (std::exchange(at_start_, false) && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  if (line.empty()) {
    if (std::exchange(has_data_, false)) on_data(data_);
    data_.clear();
  } else if (line == "data" || line.starts_with("data:")) {
    line.remove_prefix(line == "data" ? 4 : 5);
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += line;
    has_data_ = true;
  }
  line_.clear();
}

}  // namespace tandem::client
