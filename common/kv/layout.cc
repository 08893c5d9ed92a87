#include "common/kv/layout.h"

namespace tandem::kv {

Status KvLayout::Validate() const {
  struct Field {
    const char* name;
    std::int32_t value;
    std::int32_t most;
  };
  for (const Field& f : {Field{"num_layers", num_layers, 1024},
                         {"num_kv_heads", num_kv_heads, 1024},
                         {"head_dim", head_dim, 4096},
                         {"block_size", block_size, 1024}}) {
    if (f.value < 1 || f.value > f.most) {
      return InvalidArgument("KV layout: {} is {}, must be 1..{}", f.name, f.value, f.most);
    }
  }
  return OkStatus();
}

std::string KvLayout::ToString() const {
  return fmt::format("{} layers x {} kv heads x {}, block {}, {}", num_layers, num_kv_heads,
                     head_dim, block_size, dtype == KvDtype::kF32 ? "f32" : "bf16");
}

}  // namespace tandem::kv
