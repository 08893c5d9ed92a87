#include "common/model/weight_plan.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "common/base/random.h"
#include "common/ops/pack_panels.h"
#include "common/ops/packed_matrix.h"

namespace tandem::model {
namespace {

constexpr ops::WeightType kTypes[] = {
    ops::WeightType::kF32,  ops::WeightType::kF16,  ops::WeightType::kBF16, ops::WeightType::kQ4_0,
    ops::WeightType::kQ4_1, ops::WeightType::kQ5_0, ops::WeightType::kQ5_1, ops::WeightType::kQ8_0,
    ops::WeightType::kQ4_K, ops::WeightType::kQ5_K, ops::WeightType::kQ6_K,
};

// A small matrix of every type, packed, with several blocks of every size and a last panel that is
// not full: whatever change of a layout or of the packing there is, it changes these bytes.
void AddSamples(ops::NumericsClass numerics, Sha256& hash) {
  SplitMix64 random(1);
  for (ops::WeightType type : kTypes) {
    ops::WeightSource source{.type = type, .n = 40, .k = 1280, .interleaved = 8};
    std::vector<std::byte> stored(static_cast<std::size_t>(source.n * source.row_bytes()));
    for (std::byte& byte : stored) byte = static_cast<std::byte>(random.Below(256));
    source.bytes = stored;
    const ops::PackedView shape = ops::PackedMatrix::ShapeOf(source, numerics);
    std::vector<std::byte> packed(static_cast<std::size_t>(ops::PackedMatrix::BytesOf(shape)));
    ops::PackPanels(source, shape, {0, ops::PackedMatrix::PanelsOf(shape)}, packed.data());
    hash.Update(packed);
  }
}

Hash128 LayoutHash(ops::NumericsClass numerics, const std::vector<PlannedMatrix>& matrices) {
  Sha256 hash;
  AddSamples(numerics, hash);
  for (const PlannedMatrix& matrix : matrices) {
    hash.UpdateU64(static_cast<std::uint64_t>(matrix.ref.part));
    hash.UpdateU64(static_cast<std::uint64_t>(matrix.ref.layer));
    hash.UpdateU64(static_cast<std::uint64_t>(matrix.shape.layout));
    hash.UpdateU64(static_cast<std::uint64_t>(matrix.offset));
    hash.UpdateU64(static_cast<std::uint64_t>(matrix.shape.n));
    hash.UpdateU64(static_cast<std::uint64_t>(matrix.shape.k));
    hash.UpdateU64(static_cast<std::uint64_t>(matrix.shape.panel_bytes));
  }
  return hash.Finish128();
}

// Writes the bytes [begin, end) of one matrix, counted from its first panel.
void FillMatrix(const PlannedMatrix& matrix, std::int64_t begin, std::int64_t end, std::byte* out,
                std::vector<std::byte>& spare) {
  const std::int64_t panel_bytes = matrix.shape.panel_bytes;
  const auto pack = [&](std::int64_t first, std::int64_t last, std::byte* to) {
    ops::PackPanels(matrix.source, matrix.shape, {first, last}, to);
  };
  while (begin < end) {
    const std::int64_t panel = begin / panel_bytes;
    const std::int64_t inside = begin % panel_bytes;
    if (inside == 0 && end - begin >= panel_bytes) {
      const std::int64_t count = (end - begin) / panel_bytes;
      pack(panel, panel + count, out);
      begin += count * panel_bytes;
      out += count * panel_bytes;
      continue;
    }
    // A panel that a window's edge cuts is packed for both windows.
    spare.resize(std::max(spare.size(), static_cast<std::size_t>(panel_bytes)));
    pack(panel, panel + 1, spare.data());
    const std::int64_t count = std::min(panel_bytes - inside, end - begin);
    std::memcpy(out, spare.data() + inside, static_cast<std::size_t>(count));
    begin += count;
    out += count;
  }
}

}  // namespace

StatusOr<WeightPlan> WeightPlan::Make(const WeightReader& reader, const ModelConfig& config,
                                      ops::NumericsClass numerics) {
  WeightPlan plan;
  for (const PartRef& ref : PartsOf(config)) {
    TANDEM_ASSIGN_OR_RETURN(const ops::WeightSource source, reader.Read(ref));
    if (ref.part != Part::kEmbedding || !config.tied_head) {
      plan.stored_bytes_ += static_cast<std::int64_t>(source.bytes.size());
    }
    if (!IsPacked(ref.part)) continue;
    const ops::PackedView shape = ops::PackedMatrix::ShapeOf(source, numerics);
    plan.matrices_.push_back({ref, source, shape, plan.bytes_});
    plan.bytes_ += ops::RoundUp(ops::PackedMatrix::BytesOf(shape), kMatrixAlignment);
  }
  plan.layout_ = LayoutHash(numerics, plan.matrices_);
  return plan;
}

void WeightPlan::Fill(std::int64_t window, std::byte* out, std::vector<std::byte>& spare) const {
  const std::int64_t begin = window * kWindowBytes;
  const std::int64_t end = std::min(begin + kWindowBytes, bytes_);
  auto matrix =
      std::upper_bound(matrices_.begin(), matrices_.end(), begin,
                       [](std::int64_t at, const PlannedMatrix& m) { return at < m.offset; });
  --matrix;  // the first lies at 0
  for (std::int64_t at = begin; at < end; ++matrix) {
    const std::int64_t last = matrix->offset + ops::PackedMatrix::BytesOf(matrix->shape);
    const std::int64_t stop = std::min(last, end);
    if (at < stop) FillMatrix(*matrix, at - matrix->offset, stop - matrix->offset, out, spare);
    const std::int64_t next =
        std::next(matrix) == matrices_.end() ? bytes_ : std::next(matrix)->offset;
    // What fills up to the next matrix's alignment is zero.
    const std::int64_t from = std::max(at, stop);
    const std::int64_t until = std::min(next, end);
    if (from < until) std::memset(out + (from - at), 0, static_cast<std::size_t>(until - from));
    out += until - at;
    at = until;
  }
}

}  // namespace tandem::model
