// Server-sent events out of a byte stream, as the HTML standard says (§ 9.2.6), for the `data`
// field alone: event names, ids and retry times are read over. Lines end with LF, CR LF or CR; a
// byte-order mark at the start is dropped.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tandem::client {

class SseParser {
 public:
  // Longer events are an error: the peer is not what it says.
  static constexpr std::size_t kMaxEventBytes = std::size_t{16} << 20;

  // Calls `on_data` for each event completed by `bytes`. Events without data are no events.
  // Errors: ResourceExhausted for an event over kMaxEventBytes.
  Status Feed(std::string_view bytes, const std::function<void(std::string_view data)>& on_data);

 private:
  void EndLine(const std::function<void(std::string_view)>& on_data);

  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_cr_ = false;
  bool at_start_ = true;
};

}  // namespace tandem::client
