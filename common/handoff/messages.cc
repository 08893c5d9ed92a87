#include "common/handoff/messages.h"

#include <array>

namespace tandem::handoff {

std::string_view ToString(Reason reason) {
  static constexpr std::array<std::string_view, 12> kNames = {
      "none",     "full",    "no decode node", "preempted", "model mismatch", "too long",
      "draining", "expired", "corrupt",        "no router", "stale",          "internal"};
  const auto index = static_cast<std::size_t>(reason);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::string_view MessageName(const Message& message) {
  static constexpr std::array<std::string_view, std::variant_size_v<Message>> kNames = {
      "Hello",          "HelloRefused",   "Heartbeat",      "Ping",
      "Pong",           "Drain",          "Peers",          "Prefill",
      "Cancel",         "Credit",         "PlacementNoted", "PlacementRefused",
      "Accepted",       "Refused",        "Placed",         "FirstToken",
      "Tokens",         "TransferReport", "Failed",         "Cancelled",
      "Probe",          "Probed",         "Reserve",        "Reserved",
      "ReserveRefused", "LayerDone",      "HandOff",        "Joined",
      "Rejected",       "Renew",          "RenewAnswer",    "Release",
      "Revoke"};
  return kNames[message.index()];
}

}  // namespace tandem::handoff
