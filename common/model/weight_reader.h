// Finds a model's tensors under the names that its file format gives them, in one order of rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
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

struct PartRef {
  Part part;
  std::int32_t layer;  // 0 for a part of the whole model
};

// All that `config` has, in a fixed order: layer by layer as a step reads them, then the rest.
std::vector<PartRef> PartsOf(const ModelConfig& config);
// Whether it is a matrix that is packed; else a vector, or the embedding.
bool IsPacked(Part part);

enum class Naming : std::uint8_t { kGguf, kHuggingFace };

// GGUF stores the q and k rows of arch llama interleaved, so that pairs that rotate together are
// neighbours; they are read in the other format's order. With that the same weights from either
// format are the same bytes. A fused attn_qkv is cut into its three.
// Immutable: any thread may read. Source and config outlive it.
class WeightReader {
 public:
  WeightReader(const formats::TensorSource& source, Naming naming, const ModelConfig& config)
      : source_(source), naming_(naming), config_(config) {}

  // One part's rows, in the file's mapping; a vector is one column. The head of a tied model is its
  // embedding. Errors: NotFound for a missing tensor; InvalidArgument for one of another shape than
  // the config says.
  StatusOr<ops::WeightSource> Read(PartRef ref) const;
  // The same as f32, for norms and biases.
  StatusOr<std::vector<float>> ReadVector(PartRef ref) const;

  const std::string& path() const { return source_.path(); }

 private:
  StatusOr<formats::TensorView> Find(PartRef ref) const;
  std::string NameOf(PartRef ref) const;
  formats::TensorShape ShapeOf(Part part) const;
  // The rows of `part` inside a fused attn_qkv tensor; none when the file has none.
  StatusOr<std::optional<formats::TensorView>> FromFused(PartRef ref) const;
  bool Interleaved(Part part) const;

  const formats::TensorSource& source_;
  Naming naming_;
  const ModelConfig& config_;
};

}  // namespace tandem::model
