// TCP by UCX's active messages: the source gathers blocks into eager messages, the sink checks each
// against the tickets it expects and copies it to its place. Put and get are not used: over TCP
// they can abort the process whose peer died (UCX 1.13 and 1.22).
#pragma once

#include <memory>

#include "kv_transfer/create.h"
#include "kv_transfer/transfer.h"

namespace tandem::transfer::ucx {

// As CreateSource and CreateSink. Requires: the options are valid and for this transport.
StatusOr<std::unique_ptr<Source>> CreateTcpSource(const SourceOptions& options,
                                                  SourceEventFn on_event);
StatusOr<std::unique_ptr<Sink>> CreateTcpSink(const SinkOptions& options, SinkEventFn on_event);

}  // namespace tandem::transfer::ucx
