// Any text is JSON or one error, within the stated memory.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/check.h"
#include "common/formats/json_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::formats;
  JsonLimits limits;
  limits.max_memory = 8 << 10;
  limits.max_depth = 16;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto value = ParseJson("fuzz.json", text, limits);
  TANDEM_CHECK(value.ok() || value.status().message().size() < 2000);
  if (value.ok()) {
    boost::json::value copy = *value;
    TANDEM_CHECK(copy == *value);
  }
  return 0;
}
