// Any bytes are a safetensors file or one error; whatever is read stays inside the bytes.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/formats/dequantize.h"
#include "common/formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::formats;
  auto model =
      SafetensorsModel::FromBytes("fuzz.safetensors", std::as_bytes(std::span(data, size)));
  if (!model.ok()) {
    TANDEM_CHECK(!model.status().message().empty() && model.status().message().size() < 2000);
    return 0;
  }
  std::size_t covered = 0;
  for (const TensorView& tensor : model->tensors()) {
    TANDEM_CHECK(model->Find(tensor.name) == &tensor);
    std::vector<float> values(static_cast<std::size_t>(tensor.elems()));
    TANDEM_CHECK(Dequantize(tensor.dtype, tensor.bytes, values).ok());
    covered += tensor.bytes.size();
  }
  TANDEM_CHECK(covered < size);
  return 0;
}
