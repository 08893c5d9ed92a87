// Any bytes are a GGUF file or one error; whatever is read stays inside the bytes.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/formats/dequantize.h"
#include "common/formats/gguf.h"

namespace tandem::formats {
namespace {

void ReadMetadata(const GgufMetadata& metadata) {
  for (std::string_view key : metadata.keys()) {
    TANDEM_CHECK(metadata.Has(key));
    (void)metadata.GetU64(key);
    (void)metadata.GetI64(key);
    (void)metadata.GetF64(key);
    (void)metadata.GetBool(key);
    if (auto text = metadata.GetString(key); text.ok()) (void)std::string(*text);
    if (auto array = metadata.GetStringArray(key); array.ok()) {
      std::size_t count = 0;
      for (std::string_view text : *array) {
        ++count;
        TANDEM_CHECK(std::string(text).size() == text.size());
      }
      TANDEM_CHECK(count == array->size());
    }
    if (auto array = metadata.GetNumberArray(key); array.ok()) {
      for (std::size_t i = 0; i < array->size(); ++i) {
        (void)array->Int(i);
        (void)array->Float(i);
      }
    }
  }
}

void ReadTensors(const TensorSource& source) {
  for (const TensorView& tensor : source.tensors()) {
    TANDEM_CHECK(source.Find(tensor.name) == &tensor);
    std::vector<float> values(static_cast<std::size_t>(tensor.elems()));
    TANDEM_CHECK(Dequantize(tensor.dtype, tensor.bytes, values).ok());
    TANDEM_CHECK(tensor.rows() * tensor.cols() == tensor.elems());
    if (tensor.rows() > 0) (void)tensor.Row(tensor.rows() - 1);
  }
}

}  // namespace
}  // namespace tandem::formats

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tandem::formats::GgufFile;
  auto file = GgufFile::FromBytes("fuzz.gguf", std::as_bytes(std::span(data, size)));
  if (!file.ok()) {
    TANDEM_CHECK(!file.status().message().empty() && file.status().message().size() < 2000);
    return 0;
  }
  tandem::formats::ReadMetadata(file->metadata());
  tandem::formats::ReadTensors(*file);
  return 0;
}
