// The transport inside one process: a copy by the source's thread into the sink's memory, under the
// sink's expectations. For tests, and where both roles run in one process.
#pragma once

#include <memory>

#include "kv_transfer/create.h"
#include "kv_transfer/transfer.h"

namespace tandem::transfer::loopback {

// As CreateSource and CreateSink. Requires: the options are valid and for this transport.
std::unique_ptr<Source> CreateLoopbackSource(const SourceOptions& options, SourceEventFn on_event);
StatusOr<std::unique_ptr<Sink>> CreateLoopbackSink(const SinkOptions& options,
                                                   SinkEventFn on_event);

}  // namespace tandem::transfer::loopback
