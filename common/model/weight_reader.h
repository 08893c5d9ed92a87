// Finds a model's tensors under the names that its file format gives them, in one order of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/units.h"
#include "common/formats/tensor_source.h"
#include "common/model/config.h"
#include "common/ops/weight_blocks.h"

namespace tandem::model {

// The matrices and vectors of a model; all but the first three are per layer.
enum class Part : std::uint8_t {
  kEmbedding,
  kFinalNorm,
  kHead,
  kAttentionNorm,
  kQ,
  kK,
  kV,
  kQBias,
  kKBias,
  kVBias,
  kQNorm,
  kKNorm,
  kO,
  kOBias,
  kMlpNorm,
  kGate,
  kUp,
  kDown,
  kGateBias,
  kUpBias,
  kDownBias,
};

// The parts of the whole model, and those that each layer of `config` has, in a fixed order.
std::vector<Part> ModelParts();
std::vector<Part> LayerParts(const ModelConfig& config);

// One part's rows. Moving keeps `source` valid.
struct StoredPart {
  ops::WeightSource source;          // into the file, or into `reordered`
  std::vector<std::byte> reordered;  // rows moved into our order; mostly empty
};

enum class Naming : std::uint8_t { kGguf, kHuggingFace };

// GGUF stores the q and k rows of arch llama permuted, so that pairs that rotate together are
// neighbours; they are put back by moving whole rows, quantised or not. With that the same weights
// from either format are the same bytes. A fused attn_qkv is cut into its three.
// Immutable: any thread may read. Source and config outlive it.
class WeightReader {
 public:
  WeightReader(const formats::TensorSource& source, Naming naming, const ModelConfig& config)
      : source_(source), naming_(naming), config_(config) {}

  // Bytes as stored. Errors: as Read.
  StatusOr<ByteCount> Check(Part part, std::int32_t layer) const;
  // The head of a tied model is its embedding. Requires: `layer` is 0 for a part of the whole
  // model. Errors: NotFound for a missing tensor; InvalidArgument for one of another shape than the
  // config says.
  StatusOr<StoredPart> Read(Part part, std::int32_t layer) const;
  // The same as f32, for norms and biases.
  StatusOr<std::vector<float>> ReadVector(Part part, std::int32_t layer) const;

 private:
  StatusOr<formats::TensorView> Find(Part part, std::int32_t layer) const;
  std::string NameOf(Part part, std::int32_t layer) const;
  formats::TensorShape ShapeOf(Part part) const;
  // The rows of `part` inside a fused attn_qkv tensor; none when the file has none.
  StatusOr<std::optional<formats::TensorView>> FromFused(Part part, std::int32_t layer) const;
  bool Permuted(Part part) const;

  const formats::TensorSource& source_;
  Naming naming_;
  const ModelConfig& config_;
};

}  // namespace tandem::model
