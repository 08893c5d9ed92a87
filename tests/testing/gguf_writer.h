// Writes GGUF files, good ones: tests that want a lie change the bytes afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/formats/gguf_metadata.h"
#include "common/formats/tensor_source.h"

namespace tandem::testing {

// Collects pairs and tensors, in the order of the calls.
class GgufWriter {
 public:
  // `alignment` other than 32 is written as general.alignment.
  explicit GgufWriter(std::uint32_t version = 3, std::uint32_t alignment = 32);

  void SetString(std::string_view key, std::string_view value);
  void SetU32(std::string_view key, std::uint32_t value);
  void SetU64(std::string_view key, std::uint64_t value);
  void SetF32(std::string_view key, float value);
  void SetBool(std::string_view key, bool value);
  void SetStrings(std::string_view key, const std::vector<std::string>& values);
  void SetInts(std::string_view key, std::span<const std::int32_t> values);
  void SetFloats(std::string_view key, std::span<const float> values);
  // Any value as its encoding (without the type).
  void SetRaw(std::string_view key, formats::GgufType type, std::string_view encoding);

  // `shape` in PyTorch's order. Requires: `bytes` is what the shape takes.
  void AddTensor(std::string_view name, formats::DType dtype, const formats::TensorShape& shape,
                 std::span<const std::byte> bytes);

  // The whole file.
  std::string Finish() const;

 private:
  std::uint32_t version_;
  std::uint32_t alignment_;
  std::uint64_t num_pairs_ = 0;
  std::uint64_t num_tensors_ = 0;
  std::string pairs_;
  std::string infos_;
  std::string data_;  // padded after each tensor
};

// Bytes of an arithmetic value as files have it.
template <typename T>
std::string Encoded(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(T));
}
// A u64 length and the text.
std::string EncodedString(std::string_view text);

}  // namespace tandem::testing
