#include "common/ops/embedding.h"

#include "common/base/check.h"

namespace tandem::ops {

void EmbedRows(const WeightSource& table, std::span<const std::int32_t> ids, float* out,
               Range rows) {
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    TANDEM_CHECK(ids[row] >= 0 && ids[row] < table.n);
    DequantizeRow(table.type, table.row(ids[row]), table.k, out + row * table.k);
  }
}

}  // namespace tandem::ops
