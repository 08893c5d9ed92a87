// The key-value part of a GGUF file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"
#include "common/formats/byte_cursor.h"

namespace tandem::formats {

// GGUF's own numbers.
enum class GgufType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
std::string_view Name(GgufType type);

// The strings of an array, read from the mapping as one walks them: for (std::string_view s :
// array).
class GgufStringArray {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string_view*;
    using reference = std::string_view;

    Iterator() = default;
    std::string_view operator*() const;
    Iterator& operator++();
    Iterator operator++(int);
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    friend class GgufStringArray;
    explicit Iterator(const std::byte* at) : at_(at) {}
    const std::byte* at_ = nullptr;  // at the length of the current string
  };

  // `bytes`: the encoded strings, already checked.
  GgufStringArray(std::uint64_t size, std::span<const std::byte> bytes)
      : size_(size), bytes_(bytes) {}

  std::size_t size() const { return size_; }
  Iterator begin() const { return Iterator(bytes_.data()); }
  Iterator end() const { return Iterator(bytes_.data() + bytes_.size()); }

 private:
  std::size_t size_;
  std::span<const std::byte> bytes_;
};

// The numbers of an array of any arithmetic element type, read from the mapping.
class GgufNumberArray {
 public:
  GgufNumberArray(GgufType type, std::uint64_t size, std::span<const std::byte> bytes)
      : type_(type), size_(size), bytes_(bytes) {}

  GgufType type() const { return type_; }
  std::size_t size() const { return size_; }
  // Requires: index < size(). Int of a float element truncates towards 0 (0 where it does not fit);
  // a u64 above the largest i64 reads as that.
  std::int64_t Int(std::size_t index) const;
  double Float(std::size_t index) const;

 private:
  GgufType type_;
  std::size_t size_;
  std::span<const std::byte> bytes_;
};

// All keys of a file; values stay in the mapping, which must outlive this and every view it gives.
// Getters: NotFound for a missing key, InvalidArgument for one of another type (an integer getter
// takes every integer type that holds the value, GetF64 every number). The …Or forms answer
// `fallback` for a missing key alone. Thread-safe: immutable.
class GgufMetadata {
 public:
  // Reads `count` pairs at `cursor`. `path` is for messages.
  // Errors: InvalidArgument, naming the key.
  static StatusOr<GgufMetadata> Read(const std::string& path, std::uint64_t count,
                                     ByteCursor& cursor);

  bool Has(std::string_view key) const { return values_.contains(key); }
  // In the file's order.
  std::span<const std::string_view> keys() const { return keys_; }

  StatusOr<std::string_view> GetString(std::string_view key) const;
  StatusOr<std::uint64_t> GetU64(std::string_view key) const;
  StatusOr<std::int64_t> GetI64(std::string_view key) const;
  StatusOr<double> GetF64(std::string_view key) const;
  StatusOr<bool> GetBool(std::string_view key) const;
  StatusOr<GgufStringArray> GetStringArray(std::string_view key) const;
  // An array of any integer type; of any number type.
  StatusOr<GgufNumberArray> GetIntArray(std::string_view key) const;
  StatusOr<GgufNumberArray> GetNumberArray(std::string_view key) const;

  StatusOr<std::string_view> GetStringOr(std::string_view key, std::string_view fallback) const;
  StatusOr<std::uint64_t> GetU64Or(std::string_view key, std::uint64_t fallback) const;
  StatusOr<double> GetF64Or(std::string_view key, double fallback) const;
  StatusOr<bool> GetBoolOr(std::string_view key, bool fallback) const;

  // For error messages of callers.
  const std::string& path() const { return path_; }

 private:
  struct Value {
    GgufType type;
    GgufType element;  // of an array
    std::uint64_t count = 1;
    std::span<const std::byte> bytes;  // of a string: its characters
  };

  GgufMetadata() = default;
  static StatusOr<Value> ReadValue(ByteCursor& cursor);
  static StatusOr<Value> ReadArray(ByteCursor& cursor);
  StatusOr<const Value*> Lookup(std::string_view key) const;
  Status WrongType(std::string_view key, const Value& value, std::string_view wanted) const;

  std::string path_;
  std::vector<std::string_view> keys_;
  std::unordered_map<std::string_view, Value> values_;
};

}  // namespace tandem::formats
