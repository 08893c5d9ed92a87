// A model's weights in the layouts that its numerics class computes with.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "common/formats/tensor_source.h"
#include "common/model/weight_file.h"
#include "common/ops/aligned_buffer.h"
#include "common/ops/packed_matrix.h"
#include "common/ops/weight_blocks.h"

namespace tandem::model {

// Rows of q and k are in half-split order within each head: element i rotates with i + head_dim
// / 2. Empty vectors are absent parts.
struct LayerWeights {
  std::vector<float> attention_norm;  // [hidden]
  ops::PackedMatrix q;                // [num_heads * head_dim, hidden]
  ops::PackedMatrix k;                // [num_kv_heads * head_dim, hidden]
  ops::PackedMatrix v;                // the same
  std::vector<float> q_bias;
  std::vector<float> k_bias;
  std::vector<float> v_bias;
  std::vector<float> q_norm;  // [head_dim]
  std::vector<float> k_norm;  // [head_dim]
  ops::PackedMatrix o;        // [hidden, num_heads * head_dim]
  std::vector<float> o_bias;
  std::vector<float> mlp_norm;  // [hidden]
  ops::PackedMatrix gate;       // [intermediate, hidden]
  ops::PackedMatrix up;         // the same
  ops::PackedMatrix down;       // [hidden, intermediate]
  std::vector<float> gate_bias;
  std::vector<float> up_bias;
  std::vector<float> down_bias;
};

// Immutable once loaded.
struct Weights {
  std::unique_ptr<formats::TensorSource> source;  // holds the mapping that `embedding` points into
  std::variant<ops::AlignedBuffer, WeightFile> packed;  // the bytes of all matrices: own, or shared
  ops::WeightSource embedding;                          // [vocab, hidden], as stored
  std::vector<LayerWeights> layers;
  std::vector<float> final_norm;  // [hidden]
  ops::PackedMatrix head;         // [vocab, hidden]; of a tied model, the embedding packed
};

}  // namespace tandem::model
