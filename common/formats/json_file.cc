#include "common/formats/json_file.h"

#include <algorithm>
#include <atomic>
#include <boost/json/parser.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <new>

#include "common/formats/mapped_file.h"

namespace tandem::formats {
namespace {

// The heap with a cap, so that hostile text cannot take the machine's memory. Counts atomically:
// copies of a value share its resource, and may be made in any thread.
class CappedResource final : public boost::json::memory_resource {
 public:
  explicit CappedResource(std::size_t capacity) : capacity_(capacity) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t) override {
    if (used_.fetch_add(bytes, std::memory_order_relaxed) + bytes > capacity_) {
      used_.fetch_sub(bytes, std::memory_order_relaxed);
      throw std::bad_alloc();  // caught in ParseJson
    }
    return ::operator new(bytes);  // no value needs more than its alignment
  }
  // Boost.JSON 1.81 gives keys back with another alignment than it took them with.
  void do_deallocate(void* at, std::size_t bytes, std::size_t) override {
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    ::operator delete(at);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  const std::size_t capacity_;
  std::atomic<std::size_t> used_{0};
};

std::string Position(std::string_view text, std::size_t offset) {
  std::string_view before = text.substr(0, offset);
  auto line = 1 + std::count(before.begin(), before.end(), '\n');
  auto newline = before.rfind('\n');
  auto column = newline == std::string_view::npos ? offset + 1 : offset - newline;
  return fmt::format("line {}, column {}", line, column);
}

}  // namespace

StatusOr<boost::json::value> ParseJson(std::string_view name, std::string_view text,
                                       const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return InvalidArgument(
        "{}: has {} bytes of JSON, at most {} are read; check that it is the right file", name,
        text.size(), limits.max_bytes);
  }
  boost::json::parse_options options;
  options.max_depth = static_cast<std::size_t>(limits.max_depth);
  try {
    auto storage = boost::json::make_shared_resource<CappedResource>(limits.max_memory);
    boost::json::parser parser(storage, options);
    boost::json::error_code error;
    std::size_t read = parser.write(text.data(), text.size(), error);
    if (error) {
      return InvalidArgument("{}: not valid JSON at {}: {}; the file is damaged", name,
                             Position(text, read), error.message());
    }
    return parser.release();
  } catch (const std::bad_alloc&) {
    return InvalidArgument("{}: its JSON takes more than {} bytes of memory; the file is damaged",
                           name, limits.max_memory);
  } catch (const std::exception& error) {
    return InvalidArgument("{}: not valid JSON: {}; the file is damaged", name, error.what());
  }
}

StatusOr<boost::json::value> ReadJsonFile(const std::string& path, const JsonLimits& limits) {
  TANDEM_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  auto bytes = file.bytes();
  return ParseJson(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, limits);
}

}  // namespace tandem::formats
