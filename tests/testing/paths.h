// Where tests find data that is not in the repository, and where they may write.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem::testing {

// The repository's root (its checkout, not the build).
std::string SourcePath(std::string_view relative);

// SmolLM2-135M-Instruct in Q4_1, where the quickstart keeps it: $TANDEM_MODEL_CACHE, else
// $XDG_CACHE_HOME/tandem/models, else ~/.cache/tandem/models. Nothing when it is not there: skip.
std::optional<std::string> SmolLm2Path();

// `relative` (such as "models/stories260K.bin") in the shared data: $TANDEM_SHARED, else `shared`
// beside the repository. Nothing when it is not there: skip.
std::optional<std::string> SharedPath(std::string_view relative);

// A fresh folder, removed with all that is in it at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string File(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

// Writes `text` as the whole file. Ends the test program when it cannot.
void WriteFile(const std::string& path, std::string_view text);

}  // namespace tandem::testing
