#include "tests/testing/safetensors_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "tests/testing/gguf_writer.h"
#include "tests/testing/paths.h"

namespace tandem::testing {

std::string SafetensorsBytes(std::string_view header, std::string_view buffer) {
  std::string out = Encoded(std::uint64_t{header.size()});
  out += header;
  out += buffer;
  return out;
}

void SafetensorsWriter::AddTensor(std::string_view name, formats::DType dtype,
                                  const formats::TensorShape& shape,
                                  std::span<const std::byte> bytes) {
  TANDEM_CHECK(formats::DTypeFromSafetensors(formats::Name(dtype)) == dtype);
  tensors_.push_back({std::string(name), dtype, shape,
                      std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())});
}

std::string SafetensorsWriter::Assemble(std::span<const Tensor> tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::string buffer;
  for (const Tensor& tensor : tensors) {
    header += fmt::format(R"(,"{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})",
                          tensor.name, formats::Name(tensor.dtype), formats::ToString(tensor.shape),
                          buffer.size(), buffer.size() + tensor.bytes.size());
    buffer += tensor.bytes;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return SafetensorsBytes(header, buffer);
}

std::string SafetensorsWriter::Finish() const { return Assemble(tensors_); }

void SafetensorsWriter::WriteFolder(const std::string& folder, int num_shards) const {
  if (num_shards <= 1) return WriteFile(folder + "/model.safetensors", Finish());
  std::string map;
  std::size_t total = 0;
  auto per_shard = (tensors_.size() + static_cast<std::size_t>(num_shards) - 1) /
                   static_cast<std::size_t>(num_shards);
  for (std::size_t first = 0, shard = 1; first < tensors_.size(); first += per_shard, ++shard) {
    auto part = std::span(tensors_).subspan(first, std::min(per_shard, tensors_.size() - first));
    std::string file = fmt::format("model-{:05}-of-{:05}.safetensors", shard, num_shards);
    WriteFile(folder + "/" + file, Assemble(part));
    for (const Tensor& tensor : part) {
      map += fmt::format(R"({}"{}":"{}")", map.empty() ? "" : ",", tensor.name, file);
      total += tensor.bytes.size();
    }
  }
  WriteFile(folder + "/model.safetensors.index.json",
            fmt::format(R"({{"metadata":{{"total_size":{}}},"weight_map":{{{}}}}})", total, map));
}

}  // namespace tandem::testing
