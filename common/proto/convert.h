// Between the structs of common/handoff and their protobuf twins, one overload a message. Inside
// this folder only: it sees protobuf's headers.
//
// FromProto's errors are InvalidArgument with the field's name and value first; the caller puts
// the message's name before it.
#pragma once

#include "common/base/status.h"
#include "common/handoff/messages.h"
#include "common/proto/handoff.pb.h"

namespace tandem::proto {

// The protobuf twin of a message: ProtoOf<handoff::Hello>::Type is wire::Hello.
template <typename T>
struct ProtoOf;

#define TANDEM_CONVERT(Name)                   \
  template <>                                  \
  struct ProtoOf<handoff::Name> {              \
    using Type = wire::Name;                   \
  };                                           \
  wire::Name ToProto(const handoff::Name& in); \
  StatusOr<handoff::Name> FromProto(const wire::Name& in);

TANDEM_CONVERT(Hello)
TANDEM_CONVERT(HelloRefused)
TANDEM_CONVERT(Heartbeat)
TANDEM_CONVERT(Ping)
TANDEM_CONVERT(Pong)
TANDEM_CONVERT(Drain)
TANDEM_CONVERT(Peers)
TANDEM_CONVERT(Prefill)
TANDEM_CONVERT(Cancel)
TANDEM_CONVERT(Credit)
TANDEM_CONVERT(PlacementNoted)
TANDEM_CONVERT(PlacementRefused)
TANDEM_CONVERT(Accepted)
TANDEM_CONVERT(Refused)
TANDEM_CONVERT(Placed)
TANDEM_CONVERT(FirstToken)
TANDEM_CONVERT(Tokens)
TANDEM_CONVERT(TransferReport)
TANDEM_CONVERT(Failed)
TANDEM_CONVERT(Cancelled)
TANDEM_CONVERT(Probe)
TANDEM_CONVERT(Probed)
TANDEM_CONVERT(Reserve)
TANDEM_CONVERT(Reserved)
TANDEM_CONVERT(ReserveRefused)
TANDEM_CONVERT(LayerDone)
TANDEM_CONVERT(HandOff)
TANDEM_CONVERT(Joined)
TANDEM_CONVERT(Rejected)
TANDEM_CONVERT(Renew)
TANDEM_CONVERT(RenewAnswer)
TANDEM_CONVERT(Release)
TANDEM_CONVERT(Revoke)
#undef TANDEM_CONVERT

}  // namespace tandem::proto
