#include "common/kv/layout_map.h"

namespace tandem::kv {

StatusOr<LayoutMap> LayoutMap::Make(const KvLayout& source, const KvLayout& sink) {
  struct Field {
    const char* name;
    std::int32_t source;
    std::int32_t sink;
  };
  for (const Field& f : {Field{"num_layers", source.num_layers, sink.num_layers},
                         {"num_kv_heads", source.num_kv_heads, sink.num_kv_heads},
                         {"head_dim", source.head_dim, sink.head_dim},
                         {"block_size", source.block_size, sink.block_size},
                         {"dtype", static_cast<std::int32_t>(source.dtype),
                          static_cast<std::int32_t>(sink.dtype)}}) {
    if (f.source != f.sink) {
      return FailedPrecondition(
          "KV layout: {} is {} at the source and {} at the sink; they must be "
          "equal",
          f.name, f.source, f.sink);
    }
  }
  return LayoutMap(source);
}

void LayoutMap::Pieces(Layer layer, std::span<const CopySpan> spans, BlockCount source_blocks,
                       BlockCount sink_blocks, std::vector<BytePiece>& out) const {
  for (const CopySpan& span : spans) {
    out.push_back({layout_.Offset(layer, span.source, source_blocks),
                   layout_.Offset(layer, span.sink, sink_blocks),
                   ByteCount(span.count.value() * layout_.block_bytes().value())});
  }
}

}  // namespace tandem::kv
