#include "common/worker/loaded_model.h"

#include <filesystem>

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

}  // namespace

StatusOr<LoadedModel> LoadModel(const std::string& path, const std::string& numerics, int threads) {
  const Time start = SteadyNow();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return NotFound("--model: there is no file or folder '{}'", path);
  }
  TANDEM_ASSIGN_OR_RETURN(const Hash128 tokenizer_hash, TokenizerHash(path));
  int lines = 0;
  model::Model::LoadOptions options;
  options.numerics = numerics;
  options.threads = threads;
  options.progress = [&](ByteCount done, ByteCount total) {
    if (total <= ByteCount(0) || done.value() * kProgressLines < total.value() * lines) return;
    log::Info("model.load.progress", "bytes={} of={}", done, total);
    lines = static_cast<int>(done.value() * kProgressLines / total.value()) + 1;
  };
  TANDEM_ASSIGN_OR_RETURN(auto model, model::Model::Load(path, options));
  LoadedModel out;
  out.instance = model->InstanceHash(tokenizer_hash);
  log::Info("model.load.done", "path={} instance={} numerics={} packed_bytes={} ms={:.0f}", path,
            out.instance.ToHex(), model->numerics_class(), model->packed_bytes(),
            ToMillis(SteadyNow() - start));
  out.model = std::move(model);
  return out;
}

}  // namespace tandem::worker
