// Messages of the hand-off as bytes and back. The format and its rules are in handoff.proto.
//
// Any bytes may be given to the readers: what is not a valid message is an error that names the
// message and the field, and memory stays in proportion to the bytes given.
// Protobuf's headers stay inside this folder. Thread-safe: functions only.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/handoff/messages.h"

namespace tandem::proto {

// Bounds that a valid message keeps, beside those of its structs.
inline constexpr std::size_t kMaxTokensInMessage = std::size_t{1} << 20;
inline constexpr std::size_t kMaxNameBytes = 256;

struct Frame {
  std::string type;  // "Reserve"
  std::string body;
};

// The bytes of a frame, without the length that goes before them on a connection.
std::string Encode(const handoff::Message& message);

// The answer to a frame whose type is not known here.
std::string EncodeUnknown(std::string_view type);
inline constexpr std::string_view kUnknownType = "Unknown";

// Errors: InvalidArgument.
StatusOr<Frame> ParseFrame(std::string_view bytes);

// Errors: Unimplemented quoting the type when it is none of handoff::Message;
// InvalidArgument naming message and field ("Reserve.tokens is -3, must be …").
StatusOr<handoff::Message> Decode(const Frame& frame);

// What an Unknown names. Errors: InvalidArgument. Requires: frame.type is kUnknownType.
StatusOr<std::string> DecodeUnknown(const Frame& frame);

}  // namespace tandem::proto
