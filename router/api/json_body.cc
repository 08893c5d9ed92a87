#include "router/api/json_body.h"

#include <boost/json/memory_resource.hpp>
#include <boost/json/parser.hpp>
#include <boost/json/storage_ptr.hpp>
#include <boost/json/value.hpp>
#include <new>
#include <string>

namespace tandem::router {
namespace {

namespace json = boost::json;

// Ends a parse whose values would take too much memory. Counts all that was ever allocated and
// aligns everything alike: Boost.JSON 1.81 gives keys back with another size and alignment than it
// took them with.
class CappedResource final : public json::memory_resource {
 public:
  void* do_allocate(std::size_t size, std::size_t align) override {
    if (size > kJsonMemoryMax - used_ || align > __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
      throw std::bad_alloc();
    }
    void* bytes = ::operator new(size);
    used_ += size;
    return bytes;
  }
  void do_deallocate(void* bytes, std::size_t, std::size_t) override { ::operator delete(bytes); }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

 private:
  std::size_t used_ = 0;
};

}  // namespace

ApiResult<json::object> ParseJsonObject(std::string_view body) {
  ApiError error{.status = 400, .message = {}, .code = "invalid_json"};
  try {
    json::storage_ptr storage = json::make_shared_resource<CappedResource>();
    json::parse_options options;
    options.max_depth = kJsonDepthMax;
    json::parser parser(storage, options);
    parser.reset(storage);
    json::error_code ec;
    std::size_t at = parser.write_some(body.data(), body.size(), ec);
    if (!ec && at < body.size()) ec = json::error::extra_data;
    if (ec) {
      error.message = fmt::format("the body is not JSON: {} at byte {}", ec.message(), at);
      return error;
    }
    json::value value = parser.release();
    if (json::object* object = value.if_object()) return std::move(*object);
    error.message = "the body is JSON, but not an object at byte 0";
    return error;
  } catch (const std::bad_alloc&) {
    error.status = 413;
    error.message = fmt::format("the body's values take more than {} bytes", kJsonMemoryMax);
    error.code = "too_large";
    return error;
  }
}

}  // namespace tandem::router
