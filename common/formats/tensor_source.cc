#include "common/formats/tensor_source.h"

#include <fmt/ranges.h>

#include "common/base/check.h"

namespace tandem::formats {

std::string ToString(const TensorShape& shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

std::string Quoted(std::string_view text) {
  constexpr std::size_t kMax = 96;
  std::string out = "'";
  for (char c : text.substr(0, kMax)) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '\'') {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  out += text.size() > kMax ? "…'" : "'";
  return out;
}

std::int64_t TensorView::rows() const {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

std::size_t TensorView::row_bytes() const {
  auto bytes = BytesFor(dtype, cols());
  TANDEM_CHECK(bytes.has_value());
  return static_cast<std::size_t>(*bytes);
}

StatusOr<TensorView> TensorSource::Get(std::string_view name) const {
  const TensorView* tensor = Find(name);
  if (tensor == nullptr) {
    return NotFound(
        "{}: no tensor {} among its {}; the file is incomplete or of another architecture", path(),
        Quoted(name), tensors().size());
  }
  return *tensor;
}

StatusOr<TensorView> TensorSource::Get(std::string_view name, const TensorShape& expected) const {
  TANDEM_ASSIGN_OR_RETURN(TensorView tensor, Get(name));
  if (tensor.shape != expected) {
    return InvalidArgument(
        "{}: tensor {} has shape {}, the model's configuration asks for {}; weights and "
        "configuration belong to different models",
        path(), Quoted(name), ToString(tensor.shape), ToString(expected));
  }
  return tensor;
}

}  // namespace tandem::formats
