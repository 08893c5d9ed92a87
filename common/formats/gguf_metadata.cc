#include "common/formats/gguf_metadata.h"

#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/formats/tensor_source.h"

namespace tandem::formats {
namespace {

struct TypeInfo {
  std::string_view name;
  std::size_t size;  // 0: string and array
};
constexpr std::array<TypeInfo, 13> kTypes = {{{"u8", 1},
                                              {"i8", 1},
                                              {"u16", 2},
                                              {"i16", 2},
                                              {"u32", 4},
                                              {"i32", 4},
                                              {"f32", 4},
                                              {"bool", 1},
                                              {"string", 0},
                                              {"array", 0},
                                              {"u64", 8},
                                              {"i64", 8},
                                              {"f64", 8}}};

// Smallest encodings, to refuse counts that the rest of the file cannot hold.
constexpr std::uint64_t kMinPairBytes = 8 + 4 + 1;
constexpr std::uint64_t kMinStringBytes = 8;

const TypeInfo& TypeOf(GgufType type) { return kTypes[static_cast<std::size_t>(type)]; }

template <typename T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

bool IsInteger(GgufType type) {
  return TypeOf(type).size != 0 && type != GgufType::kF32 && type != GgufType::kF64 &&
         type != GgufType::kBool;
}
bool IsNumber(GgufType type) {
  return IsInteger(type) || type == GgufType::kF32 || type == GgufType::kF64;
}

// Calls `use` with the number of arithmetic type `type` at `at`, in its own C++ type.
template <typename Use>
auto WithNumber(GgufType type, const std::byte* at, Use use) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kBool:
      return use(Load<std::uint8_t>(at));
    case GgufType::kI8:
      return use(Load<std::int8_t>(at));
    case GgufType::kU16:
      return use(Load<std::uint16_t>(at));
    case GgufType::kI16:
      return use(Load<std::int16_t>(at));
    case GgufType::kU32:
      return use(Load<std::uint32_t>(at));
    case GgufType::kI32:
      return use(Load<std::int32_t>(at));
    case GgufType::kF32:
      return use(Load<float>(at));
    case GgufType::kU64:
      return use(Load<std::uint64_t>(at));
    case GgufType::kI64:
      return use(Load<std::int64_t>(at));
    case GgufType::kF64:
      return use(Load<double>(at));
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  TANDEM_CHECK(false && "not a number");
  std::abort();
}

std::int64_t ToInt(GgufType type, const std::byte* at) {
  return WithNumber(type, at, [](auto value) -> std::int64_t {
    if constexpr (std::is_floating_point_v<decltype(value)>) {
      return value > -9.2e18 && value < 9.2e18 ? static_cast<std::int64_t>(value) : 0;
    } else if constexpr (std::is_same_v<decltype(value), std::uint64_t>) {
      constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
      return value > static_cast<std::uint64_t>(kMax) ? kMax : static_cast<std::int64_t>(value);
    } else {
      return value;
    }
  });
}

StatusOr<GgufType> ReadType(ByteCursor& cursor) {
  auto raw = cursor.Read<std::uint32_t>();
  if (!raw) return InvalidArgument("the file ends before the value's type; it is truncated");
  if (*raw >= kTypes.size()) {
    return InvalidArgument("unknown value type {}; the file is damaged or newer than this program",
                           *raw);
  }
  return static_cast<GgufType>(*raw);
}

}  // namespace

std::string_view Name(GgufType type) { return TypeOf(type).name; }

std::string_view GgufStringArray::Iterator::operator*() const {
  return {reinterpret_cast<const char*>(at_ + 8), Load<std::uint64_t>(at_)};
}

GgufStringArray::Iterator& GgufStringArray::Iterator::operator++() {
  at_ += 8 + Load<std::uint64_t>(at_);
  return *this;
}

GgufStringArray::Iterator GgufStringArray::Iterator::operator++(int) {
  Iterator before = *this;
  ++*this;
  return before;
}

std::int64_t GgufNumberArray::Int(std::size_t index) const {
  TANDEM_CHECK(index < size_);
  return ToInt(type_, bytes_.data() + index * TypeOf(type_).size);
}

double GgufNumberArray::Float(std::size_t index) const {
  TANDEM_CHECK(index < size_);
  return WithNumber(type_, bytes_.data() + index * TypeOf(type_).size,
                    [](auto value) { return static_cast<double>(value); });
}

StatusOr<GgufMetadata::Value> GgufMetadata::ReadArray(ByteCursor& cursor) {
  TANDEM_ASSIGN_OR_RETURN(GgufType element, ReadType(cursor));
  if (element == GgufType::kArray) {
    return InvalidArgument("an array of arrays, which is not read; rewrite the file without it");
  }
  auto count = cursor.Read<std::uint64_t>();
  if (!count) return InvalidArgument("the file ends inside an array; it is truncated");
  std::uint64_t min_bytes = element == GgufType::kString ? kMinStringBytes : TypeOf(element).size;
  if (*count > cursor.remaining() / min_bytes) {
    return InvalidArgument(
        "claims {} elements of type {}, but {} bytes remain; the file is truncated or damaged",
        *count, Name(element), cursor.remaining());
  }
  if (element != GgufType::kString) {
    return Value{GgufType::kArray, element, *count, *cursor.Take(*count * min_bytes)};
  }
  ByteCursor start = cursor;
  for (std::uint64_t i = 0; i < *count; ++i) {
    if (!cursor.ReadString()) {
      return InvalidArgument(
          "string {} of {} runs past the end of the file; it is truncated or damaged", i, *count);
    }
  }
  return Value{GgufType::kArray, element, *count,
               *start.Take(cursor.position() - start.position())};
}

StatusOr<GgufMetadata::Value> GgufMetadata::ReadValue(ByteCursor& cursor) {
  TANDEM_ASSIGN_OR_RETURN(GgufType type, ReadType(cursor));
  if (type == GgufType::kArray) return ReadArray(cursor);
  if (type == GgufType::kString) {
    auto text = cursor.ReadString();
    if (!text) {
      return InvalidArgument(
          "the string runs past the end of the file; it is truncated or damaged");
    }
    return Value{type, type, 1, std::as_bytes(std::span(text->data(), text->size()))};
  }
  auto bytes = cursor.Take(TypeOf(type).size);
  if (!bytes) return InvalidArgument("the file ends inside the value; it is truncated");
  return Value{type, type, 1, *bytes};
}

StatusOr<GgufMetadata> GgufMetadata::Read(const std::string& path, std::uint64_t count,
                                          ByteCursor& cursor) {
  GgufMetadata out;
  out.path_ = path;
  if (count > cursor.remaining() / kMinPairBytes) {
    return InvalidArgument(
        "{}: claims {} metadata pairs, but {} bytes follow; the file is truncated or damaged", path,
        count, cursor.remaining());
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    auto key = cursor.ReadString();
    if (!key) {
      return InvalidArgument(
          "{}: the file ends inside metadata key {} of {}; it is truncated or damaged", path, i,
          count);
    }
    auto value = ReadValue(cursor);
    if (!value.ok()) {
      return Annotate(value.status(), fmt::format("{}: metadata {}", path, Quoted(*key)));
    }
    if (!out.values_.emplace(*key, *value).second) {
      return InvalidArgument("{}: metadata key {} occurs twice; rewrite the file with one of them",
                             path, Quoted(*key));
    }
    out.keys_.push_back(*key);
  }
  return out;
}

StatusOr<const GgufMetadata::Value*> GgufMetadata::Lookup(std::string_view key) const {
  auto it = values_.find(key);
  if (it == values_.end()) {
    return NotFound("{}: no metadata key {}; the file is incomplete", path_, Quoted(key));
  }
  return &it->second;
}

Status GgufMetadata::WrongType(std::string_view key, const Value& value,
                               std::string_view wanted) const {
  std::string actual(Name(value.type));
  if (value.type == GgufType::kArray) actual = fmt::format("array of {}", Name(value.element));
  return InvalidArgument("{}: metadata key {} has type {}, expected {}; convert the model again",
                         path_, Quoted(key), actual, wanted);
}

StatusOr<std::string_view> GgufMetadata::GetString(std::string_view key) const {
  TANDEM_ASSIGN_OR_RETURN(const Value* value, Lookup(key));
  if (value->type != GgufType::kString) return WrongType(key, *value, "string");
  return std::string_view(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
}

StatusOr<std::uint64_t> GgufMetadata::GetU64(std::string_view key) const {
  TANDEM_ASSIGN_OR_RETURN(const Value* value, Lookup(key));
  if (!IsInteger(value->type)) return WrongType(key, *value, "an integer");
  if (value->type == GgufType::kU64) return Load<std::uint64_t>(value->bytes.data());
  std::int64_t number = ToInt(value->type, value->bytes.data());
  if (number < 0) {
    return InvalidArgument("{}: metadata key {} is {}, must not be negative; the file is damaged",
                           path_, Quoted(key), number);
  }
  return static_cast<std::uint64_t>(number);
}

StatusOr<std::int64_t> GgufMetadata::GetI64(std::string_view key) const {
  TANDEM_ASSIGN_OR_RETURN(const Value* value, Lookup(key));
  if (!IsInteger(value->type)) return WrongType(key, *value, "an integer");
  if (value->type == GgufType::kU64) {
    auto number = Load<std::uint64_t>(value->bytes.data());
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return InvalidArgument("{}: metadata key {} is {}, above 2^63 - 1; the file is damaged",
                             path_, Quoted(key), number);
    }
  }
  return ToInt(value->type, value->bytes.data());
}

StatusOr<double> GgufMetadata::GetF64(std::string_view key) const {
  TANDEM_ASSIGN_OR_RETURN(const Value* value, Lookup(key));
  if (!IsNumber(value->type)) return WrongType(key, *value, "a number");
  return WithNumber(value->type, value->bytes.data(),
                    [](auto number) { return static_cast<double>(number); });
}

StatusOr<bool> GgufMetadata::GetBool(std::string_view key) const {
  TANDEM_ASSIGN_OR_RETURN(const Value* value, Lookup(key));
  if (value->type != GgufType::kBool) return WrongType(key, *value, "bool");
  return value->bytes[0] != std::byte{0};
}

StatusOr<GgufStringArray> GgufMetadata::GetStringArray(std::string_view key) const {
  TANDEM_ASSIGN_OR_RETURN(const Value* value, Lookup(key));
  if (value->type != GgufType::kArray || value->element != GgufType::kString) {
    return WrongType(key, *value, "array of string");
  }
  return GgufStringArray(value->count, value->bytes);
}

StatusOr<GgufNumberArray> GgufMetadata::GetIntArray(std::string_view key) const {
  TANDEM_ASSIGN_OR_RETURN(const Value* value, Lookup(key));
  if (value->type != GgufType::kArray || !IsInteger(value->element)) {
    return WrongType(key, *value, "array of integers");
  }
  return GgufNumberArray(value->element, value->count, value->bytes);
}

StatusOr<GgufNumberArray> GgufMetadata::GetNumberArray(std::string_view key) const {
  TANDEM_ASSIGN_OR_RETURN(const Value* value, Lookup(key));
  if (value->type != GgufType::kArray || !IsNumber(value->element)) {
    return WrongType(key, *value, "array of numbers");
  }
  return GgufNumberArray(value->element, value->count, value->bytes);
}

StatusOr<std::string_view> GgufMetadata::GetStringOr(std::string_view key,
                                                     std::string_view fallback) const {
  return Has(key) ? GetString(key) : fallback;
}

StatusOr<std::uint64_t> GgufMetadata::GetU64Or(std::string_view key, std::uint64_t fallback) const {
  return Has(key) ? GetU64(key) : fallback;
}

StatusOr<double> GgufMetadata::GetF64Or(std::string_view key, double fallback) const {
  return Has(key) ? GetF64(key) : fallback;
}

StatusOr<bool> GgufMetadata::GetBoolOr(std::string_view key, bool fallback) const {
  return Has(key) ? GetBool(key) : fallback;
}

}  // namespace tandem::formats
