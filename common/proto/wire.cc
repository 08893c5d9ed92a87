#include "common/proto/wire.h"

#include <google/protobuf/stubs/logging.h>

#include <array>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/proto/convert.h"
#include "common/proto/convert_parts.h"

namespace tandem::proto {
namespace {

template <typename T>
StatusOr<handoff::Message> DecodeAs(const std::string& body) {
  typename ProtoOf<T>::Type in;
  if (!in.ParseFromString(body)) return InvalidArgument("{} bytes that do not parse", body.size());
  TANDEM_ASSIGN_OR_RETURN(T out, FromProto(in));
  return handoff::Message(std::move(out));
}

using Decoder = StatusOr<handoff::Message> (*)(const std::string&);

// One decoder for each alternative of Message, in its order.
template <std::size_t... kIndex>
constexpr auto MakeDecoders(std::index_sequence<kIndex...>) {
  return std::array<Decoder, sizeof...(kIndex)>{
      &DecodeAs<std::variant_alternative_t<kIndex, handoff::Message>>...};
}

template <std::size_t... kIndex>
auto MakeNames(std::index_sequence<kIndex...>) {
  return std::array<std::string_view, sizeof...(kIndex)>{
      handoff::MessageName(handoff::Message(std::in_place_index<kIndex>))...};
}

using Alternatives = std::make_index_sequence<std::variant_size_v<handoff::Message>>;

std::string EncodeFrame(std::string_view type, std::string body) {
  wire::Frame frame;
  frame.set_type(std::string(type));
  frame.set_body(std::move(body));
  return frame.SerializeAsString();
}

}  // namespace

std::string Encode(const handoff::Message& message) {
  std::string body =
      std::visit([](const auto& m) { return ToProto(m).SerializeAsString(); }, message);
  return EncodeFrame(handoff::MessageName(message), std::move(body));
}

std::string EncodeUnknown(std::string_view type) {
  wire::Unknown body;
  body.set_type(std::string(type.substr(0, kMaxNameBytes)));
  return EncodeFrame(kUnknownType, body.SerializeAsString());
}

StatusOr<Frame> ParseFrame(std::string_view bytes) {
  // The library would write a line to stderr for each bad string; our errors say it already.
  [[maybe_unused]] static const bool silenced = [] {
    google::protobuf::SetLogHandler(nullptr);
    return true;
  }();
  wire::Frame frame;
  if (!frame.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return InvalidArgument("a frame of {} bytes that does not parse", bytes.size());
  }
  Frame out;
  TANDEM_ASSIGN_OR_RETURN(out.type, NameFrom("frame type", frame.type()));
  if (out.type.empty()) return InvalidArgument("a frame without a type");
  out.body = std::move(*frame.mutable_body());
  return out;
}

StatusOr<handoff::Message> Decode(const Frame& frame) {
  static constexpr auto kDecoders = MakeDecoders(Alternatives());
  static const auto kNames = MakeNames(Alternatives());
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] != frame.type) continue;
    StatusOr<handoff::Message> message = kDecoders[i](frame.body);
    if (!message.ok()) return Annotate(message.status(), frame.type);
    return message;
  }
  return Unimplemented("message type '{}' is not known here", frame.type);
}

StatusOr<std::string> DecodeUnknown(const Frame& frame) {
  TANDEM_CHECK(frame.type == kUnknownType);
  wire::Unknown body;
  if (!body.ParseFromString(frame.body)) return InvalidArgument("Unknown: bytes that do not parse");
  return NameFrom("type", body.type());
}

}  // namespace tandem::proto
