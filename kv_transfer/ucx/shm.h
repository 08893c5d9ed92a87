// Shared memory of one host. The sink's regions lie in memory that UCX allocates; the source maps
// them by their keys and its completion thread writes them with streaming stores, which is faster
// than UCX's own put. The sink takes no part and sees nothing: see DrainProof::kWriter.
#pragma once

#include <memory>

#include "kv_transfer/create.h"
#include "kv_transfer/transfer.h"

namespace tandem::transfer::ucx {

// As CreateSource and CreateSink. Requires: the options are valid and for this transport.
StatusOr<std::unique_ptr<Source>> CreateShmSource(const SourceOptions& options,
                                                  SourceEventFn on_event);
StatusOr<std::unique_ptr<Sink>> CreateShmSink(const SinkOptions& options, SinkEventFn on_event);

}  // namespace tandem::transfer::ucx
