#include "tests/testing/gguf_writer.h"

#include "common/base/check.h"

namespace tandem::testing {
namespace {

using formats::GgufType;

void Pad(std::string& text, std::size_t alignment) {
  text.resize((text.size() + alignment - 1) / alignment * alignment, '\0');
}

std::string EncodedArray(GgufType element, std::size_t count, std::string_view elements) {
  return Encoded(static_cast<std::uint32_t>(element)) + Encoded(std::uint64_t{count}) +
         std::string(elements);
}

template <typename T>
std::string_view AsText(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

std::string EncodedString(std::string_view text) {
  return Encoded(std::uint64_t{text.size()}) + std::string(text);
}

GgufWriter::GgufWriter(std::uint32_t version, std::uint32_t alignment)
    : version_(version), alignment_(alignment) {
  if (alignment != 32) SetU32("general.alignment", alignment);
}

void GgufWriter::SetRaw(std::string_view key, GgufType type, std::string_view encoding) {
  pairs_ += EncodedString(key) + Encoded(static_cast<std::uint32_t>(type));
  pairs_ += encoding;
  ++num_pairs_;
}

void GgufWriter::SetString(std::string_view key, std::string_view value) {
  SetRaw(key, GgufType::kString, EncodedString(value));
}
void GgufWriter::SetU32(std::string_view key, std::uint32_t value) {
  SetRaw(key, GgufType::kU32, Encoded(value));
}
void GgufWriter::SetU64(std::string_view key, std::uint64_t value) {
  SetRaw(key, GgufType::kU64, Encoded(value));
}
void GgufWriter::SetF32(std::string_view key, float value) {
  SetRaw(key, GgufType::kF32, Encoded(value));
}
void GgufWriter::SetBool(std::string_view key, bool value) {
  SetRaw(key, GgufType::kBool, Encoded(static_cast<std::uint8_t>(value)));
}

void GgufWriter::SetStrings(std::string_view key, const std::vector<std::string>& values) {
  std::string elements;
  for (const std::string& value : values) elements += EncodedString(value);
  SetRaw(key, GgufType::kArray, EncodedArray(GgufType::kString, values.size(), elements));
}
void GgufWriter::SetInts(std::string_view key, std::span<const std::int32_t> values) {
  SetRaw(key, GgufType::kArray, EncodedArray(GgufType::kI32, values.size(), AsText(values)));
}
void GgufWriter::SetFloats(std::string_view key, std::span<const float> values) {
  SetRaw(key, GgufType::kArray, EncodedArray(GgufType::kF32, values.size(), AsText(values)));
}

void GgufWriter::AddTensor(std::string_view name, formats::DType dtype,
                           const formats::TensorShape& shape, std::span<const std::byte> bytes) {
  infos_ += EncodedString(name) + Encoded(static_cast<std::uint32_t>(shape.size()));
  std::int64_t elems = 1;
  for (auto dim = shape.rbegin(); dim != shape.rend(); ++dim) {
    infos_ += Encoded(static_cast<std::uint64_t>(*dim));
    elems *= *dim;
  }
  auto size = formats::BytesFor(dtype, elems);
  TANDEM_CHECK(size.has_value() && static_cast<std::size_t>(*size) == bytes.size());
  infos_ += Encoded(formats::Info(dtype).gguf_id) + Encoded(std::uint64_t{data_.size()});
  data_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Pad(data_, alignment_);
  ++num_tensors_;
}

std::string GgufWriter::Finish() const {
  std::string out = "GGUF" + Encoded(version_) + Encoded(num_tensors_) + Encoded(num_pairs_);
  out += pairs_;
  out += infos_;
  Pad(out, alignment_);
  out += data_;
  return out;
}

}  // namespace tandem::testing
