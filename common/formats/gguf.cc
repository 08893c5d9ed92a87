#include "common/formats/gguf.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace tandem::formats {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint64_t kMaxNameBytes = 63;   // GGML_MAX_NAME less its NUL
constexpr std::uint32_t kMaxDims = 4;
constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;  // one dimension, empty name

struct Header {
  std::uint32_t version;
  std::uint64_t num_tensors;
  std::uint64_t num_pairs;
};

// As read, before its bytes are looked for.
struct TensorInfo {
  TensorView view;
  std::uint64_t offset;  // in the data section
  std::uint64_t size;
};

Status Truncated(const std::string& path, std::string_view where, const ByteCursor& cursor) {
  return InvalidArgument(
      "{}: the file ends inside {} (byte {}); it is truncated: download it again", path, where,
      cursor.position());
}

StatusOr<Header> ReadHeader(const std::string& path, ByteCursor& cursor) {
  auto magic = cursor.Read<std::uint32_t>();
  if (!magic || *magic != kMagic) {
    return InvalidArgument("{}: does not start with \"GGUF\": not a GGUF file; check the path",
                           path);
  }
  auto version = cursor.Read<std::uint32_t>();
  if (!version) return Truncated(path, "the header", cursor);
  if (*version != 2 && *version != 3) {
    bool swapped = __builtin_bswap32(*version) <= 3 && *version != 0;
    return Unimplemented(
        "{}: GGUF version {}{}; versions 2 and 3 are read: convert the model again", path, *version,
        swapped ? " (a big-endian file)" : "");
  }
  auto tensors = cursor.Read<std::uint64_t>();
  auto pairs = cursor.Read<std::uint64_t>();
  if (!tensors || !pairs) return Truncated(path, "the header", cursor);
  return Header{*version, *tensors, *pairs};
}

// dims[0] is contiguous in the file; the shape has it last.
StatusOr<TensorShape> ReadShape(const std::string& where, ByteCursor& cursor) {
  auto num_dims = cursor.Read<std::uint32_t>();
  if (!num_dims) return Truncated(where, "its dimensions", cursor);
  if (*num_dims < 1 || *num_dims > kMaxDims) {
    return InvalidArgument("{}: has {} dimensions, must be 1 to {}; the file is damaged", where,
                           *num_dims, kMaxDims);
  }
  TensorShape shape;
  std::int64_t elems = 1;
  for (std::uint32_t i = 0; i < *num_dims; ++i) {
    auto dim = cursor.Read<std::uint64_t>();
    if (!dim) return Truncated(where, "its dimensions", cursor);
    auto value = static_cast<std::int64_t>(*dim);
    if (value <= 0 || __builtin_mul_overflow(elems, value, &elems)) {
      return InvalidArgument(
          "{}: dimension {} is {}: zero, or more elements than 2^63; the file is damaged", where, i,
          *dim);
    }
    shape.push_back(value);
  }
  std::reverse(shape.begin(), shape.end());
  return shape;
}

StatusOr<TensorInfo> ReadTensorInfo(const std::string& path, std::uint64_t index,
                                    ByteCursor& cursor) {
  auto name = cursor.ReadString();
  if (!name) return Truncated(path, fmt::format("the name of tensor {}", index), cursor);
  std::string where = fmt::format("{}: tensor {}", path, Quoted(*name));
  if (name->size() > kMaxNameBytes) {
    return InvalidArgument("{}: its name has {} bytes, at most {} are allowed; the file is damaged",
                           where, name->size(), kMaxNameBytes);
  }
  TANDEM_ASSIGN_OR_RETURN(TensorShape shape, ReadShape(where, cursor));
  auto type = cursor.Read<std::uint32_t>();
  auto offset = cursor.Read<std::uint64_t>();
  if (!type || !offset) return Truncated(where, "its description", cursor);
  auto dtype = DTypeFromGguf(*type);
  if (!dtype) {
    return Unimplemented(
        "{}: has type {} ({}), which is not read; quantise the model to Q4_0, Q4_1, Q5_0, Q5_1, "
        "Q8_0, Q4_K, Q5_K, Q6_K, F16 or BF16",
        where, *type, GgufTypeName(*type));
  }
  const DTypeInfo& info = Info(*dtype);
  if (shape.back() % info.block_elems != 0) {
    return InvalidArgument(
        "{}: rows of {} elements are not whole {} blocks of {}; the file is damaged", where,
        shape.back(), info.name, info.block_elems);
  }
  TensorInfo out{{*name, *dtype, std::move(shape), {}}, *offset, 0};
  auto size = BytesFor(*dtype, out.view.elems());
  if (!size) {
    return InvalidArgument("{}: shape {} takes more bytes than 2^63; the file is damaged", where,
                           ToString(out.view.shape));
  }
  out.size = static_cast<std::uint64_t>(*size);
  return out;
}

StatusOr<std::uint64_t> ReadAlignment(const GgufMetadata& metadata) {
  TANDEM_ASSIGN_OR_RETURN(std::uint64_t alignment, metadata.GetU64Or("general.alignment", 32));
  if (!std::has_single_bit(alignment) || alignment > (std::uint64_t{1} << 31)) {
    return InvalidArgument(
        "{}: general.alignment is {}, must be a power of two; the file is damaged", metadata.path(),
        alignment);
  }
  return alignment;
}

// Gives each tensor its bytes of `data`. Errors: misplaced or past the end.
Status PlaceTensors(const std::string& path, std::uint64_t alignment,
                    std::span<const std::byte> data, std::vector<TensorInfo>& infos) {
  for (TensorInfo& info : infos) {
    if (info.offset % alignment != 0) {
      return InvalidArgument(
          "{}: tensor {}: offset {} is not a multiple of {}; the file is damaged", path,
          Quoted(info.view.name), info.offset, alignment);
    }
    if (info.offset > data.size() || info.size > data.size() - info.offset) {
      return InvalidArgument(
          "{}: tensor {}: needs {} bytes at {}, the data section has {}; the file is truncated: "
          "download it again",
          path, Quoted(info.view.name), info.size, info.offset, data.size());
    }
    info.view.bytes = data.subspan(info.offset, info.size);
  }
  return OkStatus();
}

// Requires: all placed inside the data section.
Status CheckOverlap(const std::string& path, const std::vector<TensorInfo>& infos) {
  std::vector<const TensorInfo*> sorted;
  sorted.reserve(infos.size());
  for (const TensorInfo& info : infos) sorted.push_back(&info);
  std::sort(sorted.begin(), sorted.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const TensorInfo& before = *sorted[i - 1];
    if (before.offset + before.size > sorted[i]->offset) {
      return InvalidArgument(
          "{}: tensors {} (bytes {} to {}) and {} (from {}) overlap; the file is damaged", path,
          Quoted(before.view.name), before.offset, before.offset + before.size,
          Quoted(sorted[i]->view.name), sorted[i]->offset);
    }
  }
  return OkStatus();
}

Status CheckNotSplit(const GgufMetadata& metadata) {
  TANDEM_ASSIGN_OR_RETURN(std::uint64_t parts, metadata.GetU64Or("split.count", 1));
  if (parts > 1) {
    return Unimplemented("{}: is one of {} parts of a split model; join them (gguf-split --merge)",
                         metadata.path(), parts);
  }
  return OkStatus();
}

StatusOr<std::vector<TensorInfo>> ReadTensorInfos(const std::string& path, std::uint64_t count,
                                                  ByteCursor& cursor) {
  if (count > cursor.remaining() / kMinTensorBytes) {
    return InvalidArgument(
        "{}: claims {} tensors, but {} bytes follow; the file is truncated or damaged", path, count,
        cursor.remaining());
  }
  std::vector<TensorInfo> infos;
  for (std::uint64_t i = 0; i < count; ++i) {
    TANDEM_ASSIGN_OR_RETURN(TensorInfo info, ReadTensorInfo(path, i, cursor));
    infos.push_back(std::move(info));
  }
  return infos;
}

}  // namespace

StatusOr<GgufFile> GgufFile::Open(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::Open(path));
  TANDEM_ASSIGN_OR_RETURN(GgufFile file, FromBytes(path, mapping.bytes()));
  file.mapping_ = std::move(mapping);
  return file;
}

StatusOr<GgufFile> GgufFile::FromBytes(std::string name, std::span<const std::byte> bytes) {
  ByteCursor cursor(bytes);
  TANDEM_ASSIGN_OR_RETURN(Header header, ReadHeader(name, cursor));
  TANDEM_ASSIGN_OR_RETURN(GgufMetadata metadata,
                          GgufMetadata::Read(name, header.num_pairs, cursor));
  TANDEM_RETURN_IF_ERROR(CheckNotSplit(metadata));
  TANDEM_ASSIGN_OR_RETURN(std::vector<TensorInfo> infos,
                          ReadTensorInfos(name, header.num_tensors, cursor));
  TANDEM_ASSIGN_OR_RETURN(std::uint64_t alignment, ReadAlignment(metadata));
  std::uint64_t start = (cursor.position() + alignment - 1) & ~(alignment - 1);
  std::span<const std::byte> data;  // a file without tensors may end before the padding
  if (start < bytes.size()) data = bytes.subspan(start);
  TANDEM_RETURN_IF_ERROR(PlaceTensors(name, alignment, data, infos));
  TANDEM_RETURN_IF_ERROR(CheckOverlap(name, infos));

  std::vector<TensorView> tensors;
  std::unordered_map<std::string_view, std::size_t> index;
  for (TensorInfo& info : infos) {
    if (!index.emplace(info.view.name, tensors.size()).second) {
      return InvalidArgument("{}: tensor {} occurs twice; the file is damaged", name,
                             Quoted(info.view.name));
    }
    tensors.push_back(std::move(info.view));
  }
  return GgufFile(static_cast<int>(header.version), std::move(metadata), std::move(tensors),
                  std::move(index));
}

GgufFile::GgufFile(int version, GgufMetadata metadata, std::vector<TensorView> tensors,
                   std::unordered_map<std::string_view, std::size_t> index)
    : version_(version),
      metadata_(std::move(metadata)),
      tensors_(std::move(tensors)),
      index_(std::move(index)) {}

const TensorView* GgufFile::Find(std::string_view name) const {
  auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

StatusOr<std::vector<FileStamp>> GgufFile::Stamps() const {
  std::vector<FileStamp> stamps;
  if (mapping_.has_value()) {
    TANDEM_ASSIGN_OR_RETURN(stamps.emplace_back(), mapping_->Stamp());
  }
  return stamps;
}

}  // namespace tandem::formats
