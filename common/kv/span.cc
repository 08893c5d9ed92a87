#include "common/kv/span.h"

#include "common/base/check.h"

namespace tandem::kv {

std::vector<CopySpan> MergeSpans(std::span<const BlockId> source, std::span<const BlockId> sink) {
  TANDEM_CHECK(source.size() == sink.size());
  std::vector<CopySpan> out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (!out.empty()) {
      CopySpan& last = out.back();
      const std::int32_t n = last.count.value();
      if (last.source.value() + n == source[i].value() &&
          last.sink.value() + n == sink[i].value()) {
        ++last.count;
        continue;
      }
    }
    out.push_back({source[i], sink[i], BlockCount(1)});
  }
  return out;
}

std::vector<BlockRun> MergeRuns(std::span<const BlockId> blocks) {
  std::vector<BlockRun> out;
  for (BlockId block : blocks) {
    if (!out.empty() && out.back().first.value() + out.back().count.value() == block.value()) {
      ++out.back().count;
    } else {
      out.push_back({block, BlockCount(1)});
    }
  }
  return out;
}

}  // namespace tandem::kv
