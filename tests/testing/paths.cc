#include "tests/testing/paths.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "common/base/check.h"

namespace tandem::testing {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<std::string> IfThere(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  return path;
}

std::string ModelCache() {
  if (std::string cache = Environment("TANDEM_MODEL_CACHE"); !cache.empty()) return cache;
  if (std::string xdg = Environment("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/tandem/models";
  return Environment("HOME") + "/.cache/tandem/models";
}

}  // namespace

std::string SourcePath(std::string_view relative) {
  return std::string(TANDEM_SOURCE_DIR) + "/" + std::string(relative);
}

std::optional<std::string> SmolLm2Path() {
  return IfThere(ModelCache() + "/SmolLM2-135M-Instruct.Q4_1.gguf");
}

std::optional<std::string> SharedPath(std::string_view relative) {
  std::string shared = Environment("TANDEM_SHARED");
  if (shared.empty()) shared = SourcePath("../shared");
  return IfThere(shared + "/" + std::string(relative));
}

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tandem-test-XXXXXX").string();
  TANDEM_CHECK(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

void WriteFile(const std::string& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  TANDEM_CHECK(out.good());
}

}  // namespace tandem::testing
