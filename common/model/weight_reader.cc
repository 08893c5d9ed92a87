#include "common/model/weight_reader.h"

namespace tandem::model {
namespace {

struct PartNames {
  Part part;
  std::string_view gguf;  // after "blk.N." for parts of a layer
  std::string_view hf;    // after "model.layers.N."
};

constexpr PartNames kNames[] = {
    {Part::kEmbedding, "token_embd.weight", "model.embed_tokens.weight"},
    {Part::kFinalNorm, "output_norm.weight", "model.norm.weight"},
    {Part::kHead, "output.weight", "lm_head.weight"},
    {Part::kAttentionNorm, "attn_norm.weight", "input_layernorm.weight"},
    {Part::kQ, "attn_q.weight", "self_attn.q_proj.weight"},
    {Part::kK, "attn_k.weight", "self_attn.k_proj.weight"},
    {Part::kV, "attn_v.weight", "self_attn.v_proj.weight"},
    {Part::kQBias, "attn_q.bias", "self_attn.q_proj.bias"},
    {Part::kKBias, "attn_k.bias", "self_attn.k_proj.bias"},
    {Part::kVBias, "attn_v.bias", "self_attn.v_proj.bias"},
    {Part::kQNorm, "attn_q_norm.weight", "self_attn.q_norm.weight"},
    {Part::kKNorm, "attn_k_norm.weight", "self_attn.k_norm.weight"},
    {Part::kO, "attn_output.weight", "self_attn.o_proj.weight"},
    {Part::kOBias, "attn_output.bias", "self_attn.o_proj.bias"},
    {Part::kMlpNorm, "ffn_norm.weight", "post_attention_layernorm.weight"},
    {Part::kGate, "ffn_gate.weight", "mlp.gate_proj.weight"},
    {Part::kUp, "ffn_up.weight", "mlp.up_proj.weight"},
    {Part::kDown, "ffn_down.weight", "mlp.down_proj.weight"},
    {Part::kGateBias, "ffn_gate.bias", "mlp.gate_proj.bias"},
    {Part::kUpBias, "ffn_up.bias", "mlp.up_proj.bias"},
    {Part::kDownBias, "ffn_down.bias", "mlp.down_proj.bias"},
};

const PartNames& NamesOf(Part part) { return kNames[static_cast<std::size_t>(part)]; }

bool OfWholeModel(Part part) { return part <= Part::kHead; }

bool Has(const ModelConfig& config, Part part) {
  switch (part) {
    case Part::kQBias:
    case Part::kKBias:
    case Part::kVBias:
      return config.qkv_bias;
    case Part::kQNorm:
    case Part::kKNorm:
      return config.qk_norm;
    case Part::kOBias:
      return config.output_bias;
    case Part::kGateBias:
    case Part::kUpBias:
    case Part::kDownBias:
      return config.mlp_bias;
    default:
      return true;
  }
}

ops::WeightType TypeOf(formats::DType dtype) {
  using formats::DType;
  using ops::WeightType;
  switch (dtype) {
    case DType::kF32:
      return WeightType::kF32;
    case DType::kF16:
      return WeightType::kF16;
    case DType::kBF16:
      return WeightType::kBF16;
    case DType::kQ4_0:
      return WeightType::kQ4_0;
    case DType::kQ4_1:
      return WeightType::kQ4_1;
    case DType::kQ5_0:
      return WeightType::kQ5_0;
    case DType::kQ5_1:
      return WeightType::kQ5_1;
    case DType::kQ8_0:
      return WeightType::kQ8_0;
    case DType::kQ4_K:
      return WeightType::kQ4_K;
    case DType::kQ5_K:
      return WeightType::kQ5_K;
    case DType::kQ6_K:
      return WeightType::kQ6_K;
  }
  return WeightType::kF32;
}

}  // namespace

std::vector<PartRef> PartsOf(const ModelConfig& config) {
  std::vector<PartRef> parts;
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (const PartNames& names : kNames) {
      if (!OfWholeModel(names.part) && Has(config, names.part))
        parts.push_back({names.part, layer});
    }
  }
  for (const PartNames& names : kNames) {
    if (OfWholeModel(names.part)) parts.push_back({names.part, 0});
  }
  return parts;
}

bool IsPacked(Part part) {
  switch (part) {
    case Part::kHead:
    case Part::kQ:
    case Part::kK:
    case Part::kV:
    case Part::kO:
    case Part::kGate:
    case Part::kUp:
    case Part::kDown:
      return true;
    default:
      return false;
  }
}

std::string WeightReader::NameOf(PartRef ref) const {
  Part part = ref.part;
  if (part == Part::kHead && config_.tied_head) part = Part::kEmbedding;
  const PartNames& names = NamesOf(part);
  const bool gguf = naming_ == Naming::kGguf;
  if (OfWholeModel(part)) return std::string(gguf ? names.gguf : names.hf);
  return gguf ? fmt::format("blk.{}.{}", ref.layer, names.gguf)
              : fmt::format("model.layers.{}.{}", ref.layer, names.hf);
}

formats::TensorShape WeightReader::ShapeOf(Part part) const {
  const std::int64_t hidden = config_.hidden_size;
  const std::int64_t inner = config_.intermediate_size;
  const std::int64_t q = std::int64_t{config_.num_heads} * config_.head_dim;
  const std::int64_t kv = std::int64_t{config_.num_kv_heads} * config_.head_dim;
  switch (part) {
    case Part::kEmbedding:
    case Part::kHead:
      return {config_.vocab_size, hidden};
    case Part::kQ:
      return {q, hidden};
    case Part::kK:
    case Part::kV:
      return {kv, hidden};
    case Part::kQBias:
      return {q};
    case Part::kKBias:
    case Part::kVBias:
      return {kv};
    case Part::kQNorm:
    case Part::kKNorm:
      return {config_.head_dim};
    case Part::kO:
      return {hidden, q};
    case Part::kGate:
    case Part::kUp:
      return {inner, hidden};
    case Part::kDown:
      return {hidden, inner};
    case Part::kGateBias:
    case Part::kUpBias:
      return {inner};
    case Part::kFinalNorm:
    case Part::kAttentionNorm:
    case Part::kMlpNorm:
    case Part::kOBias:
    case Part::kDownBias:
      return {hidden};
  }
  return {};
}

StatusOr<std::optional<formats::TensorView>> WeightReader::FromFused(PartRef ref) const {
  const Part part = ref.part;
  const bool weight = part == Part::kQ || part == Part::kK || part == Part::kV;
  const bool bias = part == Part::kQBias || part == Part::kKBias || part == Part::kVBias;
  if (naming_ != Naming::kGguf || (!weight && !bias)) return std::nullopt;
  const std::string name = fmt::format("blk.{}.attn_qkv.{}", ref.layer, weight ? "weight" : "bias");
  if (source_.Find(name) == nullptr) return std::nullopt;
  const std::int64_t q = std::int64_t{config_.num_heads} * config_.head_dim;
  const std::int64_t kv = std::int64_t{config_.num_kv_heads} * config_.head_dim;
  formats::TensorShape shape = {q + 2 * kv};
  if (weight) shape.push_back(config_.hidden_size);
  TANDEM_ASSIGN_OR_RETURN(formats::TensorView view, source_.Get(name, shape));
  if (bias && formats::Info(view.dtype).block_elems != 1) return view;  // refused by the caller
  const bool is_q = part == Part::kQ || part == Part::kQBias;
  const bool is_k = part == Part::kK || part == Part::kKBias;
  const std::int64_t first = is_q ? 0 : is_k ? q : q + kv;
  const std::int64_t count = is_q ? q : kv;
  const std::size_t row_bytes = view.bytes.size() / static_cast<std::size_t>(q + 2 * kv);
  view.bytes = view.bytes.subspan(static_cast<std::size_t>(first) * row_bytes,
                                  static_cast<std::size_t>(count) * row_bytes);
  view.shape[0] = count;
  return view;
}

bool WeightReader::Interleaved(Part part) const {
  const bool rotates =
      part == Part::kQ || part == Part::kK || part == Part::kQBias || part == Part::kKBias;
  return rotates && naming_ == Naming::kGguf && config_.architecture == Architecture::kLlama;
}

StatusOr<formats::TensorView> WeightReader::Find(PartRef ref) const {
  TANDEM_ASSIGN_OR_RETURN(std::optional<formats::TensorView> fused, FromFused(ref));
  formats::TensorView view;
  if (fused) {
    view = *fused;
  } else {
    TANDEM_ASSIGN_OR_RETURN(view, source_.Get(NameOf(ref), ShapeOf(ref.part)));
  }
  if (view.shape.size() == 1 && formats::Info(view.dtype).block_elems != 1) {
    return InvalidArgument("{}: {} is quantised as {}; norms and biases must be F32, F16 or BF16",
                           source_.path(), NameOf(ref), formats::Name(view.dtype));
  }
  return view;
}

StatusOr<ops::WeightSource> WeightReader::Read(PartRef ref) const {
  TANDEM_ASSIGN_OR_RETURN(const formats::TensorView view, Find(ref));
  ops::WeightSource source{.type = TypeOf(view.dtype), .bytes = view.bytes};
  const bool vector = view.shape.size() == 1;
  source.n = vector ? view.shape[0] : view.rows();
  source.k = vector ? 1 : view.cols();
  if (Interleaved(ref.part)) source.interleaved = config_.head_dim;
  TANDEM_RETURN_IF_ERROR(Annotate(source.Validate(), source_.path() + ": " + NameOf(ref)));
  return source;
}

StatusOr<std::vector<float>> WeightReader::ReadVector(PartRef ref) const {
  TANDEM_ASSIGN_OR_RETURN(const ops::WeightSource source, Read(ref));
  std::vector<float> out(static_cast<std::size_t>(source.n));
  for (std::int64_t i = 0; i < source.n; ++i) {
    ops::DequantizeRow(source.type, source.row(i), 1, &out[static_cast<std::size_t>(i)]);
  }
  return out;
}

}  // namespace tandem::model
