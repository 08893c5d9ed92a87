#include "common/worker/loaded_model.h"

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "common/base/time.h"
#include "common/formats/gguf.h"
#include "common/log/log.h"
#include "common/tokenizer/tokenizer_loader.h"

namespace tandem::worker {
namespace {

constexpr int kProgressLines = 4;

StatusOr<Hash128> TokenizerHash(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path folder(path);
  if (folder.extension() == ".gguf") {
    TANDEM_ASSIGN_OR_RETURN(const formats::GgufFile file, formats::GgufFile::Open(path));
    TANDEM_ASSIGN_OR_RETURN(const auto tokenizer, tokenizer::LoadTokenizerFromGguf(file));
    return tokenizer.content_hash();
  }
  if (!std::filesystem::is_directory(folder, ignored)) folder = folder.parent_path();
  TANDEM_ASSIGN_OR_RETURN(const auto tokenizer,
                          tokenizer::LoadTokenizerFromFolder(folder.string()));
  return tokenizer.content_hash();
}

// None where the user has no folder for caches.
std::optional<model::WeightCache::Options> CacheOf(const std::string& flag) {
  if (flag == "off") return std::nullopt;
  if (flag != "auto") return model::WeightCache::Options{.folder = flag};
  for (const auto& [variable, below] : {std::pair("XDG_CACHE_HOME", ""), {"HOME", ".cache"}}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || !std::filesystem::path(value).is_absolute()) continue;
    const auto folder = std::filesystem::path(value) / below / "tandem" / "weights";
    return model::WeightCache::Options{.folder = folder.lexically_normal().string()};
  }
  return std::nullopt;
}

void LogHome(const model::WeightsHome& home) {
  if (!home.damage.empty()) {
    log::Warning("weights.cache.replaced", "reason=\"{}\"", home.damage);
  }
  if (home.shared) {
    log::Info("weights.shared", "file={} packed={}", home.file, home.packed ? "now" : "before");
  } else if (home.denied) {
    log::Warning("weights.private", "reason=\"{}\"", home.why_not);
  } else {
    log::Info("weights.private", "reason=\"{}\"", home.why_not);
  }
}

}  // namespace

StatusOr<LoadedModel> LoadModel(const ModelFlags& flags) {
  const Time start = SteadyNow();
  std::error_code ignored;
  if (!std::filesystem::exists(flags.path, ignored)) {
    return NotFound("--model: there is no file or folder '{}'", flags.path);
  }
  TANDEM_ASSIGN_OR_RETURN(const Hash128 tokenizer_hash, TokenizerHash(flags.path));
  int lines = 0;
  model::Model::LoadOptions options;
  options.numerics = flags.numerics;
  options.threads = flags.threads;
  options.weight_cache = CacheOf(flags.weights_cache);
  if (!options.weight_cache && flags.weights_cache == "auto") {
    log::Warning("weights.cache.nowhere", "reason=\"neither XDG_CACHE_HOME nor HOME is set\"");
  }
  options.progress = [&](ByteCount done, ByteCount total) {
    if (total <= ByteCount(0) || done.value() * kProgressLines < total.value() * lines) return;
    log::Info("model.load.progress", "bytes={} of={}", done, total);
    lines = static_cast<int>(done.value() * kProgressLines / total.value()) + 1;
  };
  TANDEM_ASSIGN_OR_RETURN(auto model, model::Model::Load(flags.path, options));
  LogHome(model->weights_home());
  LoadedModel out;
  out.instance = model->InstanceHash(tokenizer_hash);
  log::Info("model.load.done", "path={} instance={} numerics={} packed_bytes={} ms={:.0f}",
            flags.path, out.instance.ToHex(), model->numerics_class(), model->packed_bytes(),
            ToMillis(SteadyNow() - start));
  out.model = std::move(model);
  return out;
}

}  // namespace tandem::worker
