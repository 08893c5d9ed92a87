// Times and bounds of a control connection. Both ends keep their own; the defaults are the
// protocol's.
#pragma once

#include <chrono>
#include <cstddef>

#include "common/base/time.h"
#include "common/handoff/silence_watch.h"

namespace tandem::rpc {

struct Options {
  Duration heartbeat_every = handoff::kHeartbeatEvery;
  // Nothing heard for this long: the connection is closed, by whoever notices.
  Duration silence_limit = handoff::kSilenceLimit;
  // The owner's strand does not answer for this long: no more signs of life are sent in its name,
  // so that the peer hears nothing and closes.
  Duration owner_limit = std::chrono::seconds(10);
  Duration connect_timeout = std::chrono::seconds(2);
  // From connected to both Hellos accepted.
  Duration hello_timeout = std::chrono::seconds(2);
  // A longer frame ends the connection. Before the peer's Hello it may be 64 KiB at most.
  std::size_t max_frame_bytes = std::size_t{4} << 20;
  // Bytes waiting to be written; more ends the connection (the peer does not read).
  std::size_t max_unsent_bytes = std::size_t{64} << 20;
  // Received messages that the owner has not handled; more stops reading until it has.
  std::size_t max_unhandled_messages = 256;
};

}  // namespace tandem::rpc
