// The active messages between a source and a sink on TCP. Fixed layouts, little-endian, read only
// through Parse: what does not fit is no message.
//
//   source → sink  Hello        once, first
//   sink → source  HelloAnswer
//   source → sink  Data         spans behind the header, their bytes as the message's data
//   source → sink  Fence        answered when every Data up to `last_sequence` has been handled
//   sink → source  FenceAnswer
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "kv_transfer/transfer.h"

namespace tandem::transfer::ucx {

enum MessageId : unsigned { kHello = 1, kHelloAnswer = 2, kData = 3, kFence = 4, kFenceAnswer = 5 };
inline constexpr std::uint32_t kMaxSpans = 64;

struct HelloMessage {
  static constexpr std::uint64_t kMagic = 0x3130'7063'7464'6e74;  // "tndtcp01"
  std::uint64_t magic = kMagic;
  std::uint64_t link = 0;  // random; names the link in every later message
  std::uint64_t incarnation = 0;
};
struct HelloAnswerMessage {
  std::uint64_t link = 0;
  std::uint64_t incarnation = 0;
};
struct DataMessage {
  std::uint64_t link = 0;
  std::uint64_t sequence = 0;  // from 1
  Ticket ticket;
  std::uint64_t num_spans = 0;
};
struct SpanRecord {
  std::uint64_t offset = 0;
  std::uint32_t region = 0;
  std::uint32_t length = 0;
};
struct FenceMessage {
  std::uint64_t link = 0;
  std::uint64_t fence = 0;
  Ticket ticket;
  std::uint64_t last_sequence = 0;
};
struct FenceAnswerMessage {
  std::uint64_t link = 0;
  std::uint64_t fence = 0;
  std::uint64_t dropped_bytes = 0;  // of the ticket, since its last fence
};

template <typename Message>
std::optional<Message> Parse(const void* header, std::size_t bytes) {
  static_assert(std::is_trivially_copyable_v<Message>);
  if (bytes < sizeof(Message)) return std::nullopt;
  Message message;
  std::memcpy(&message, header, sizeof message);
  return message;
}

template <typename Message>
void Append(std::string& out, const Message& message) {
  static_assert(std::is_trivially_copyable_v<Message>);
  out.append(reinterpret_cast<const char*>(&message), sizeof message);
}

}  // namespace tandem::transfer::ucx
