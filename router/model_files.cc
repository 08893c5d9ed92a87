#include "router/model_files.h"

#include <boost/json/value.hpp>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "common/formats/gguf.h"
#include "common/formats/json_file.h"
#include "common/tokenizer/tokenizer_loader.h"

namespace tandem::router {
namespace {

StatusOr<TokenCount> CheckContext(std::string_view where, std::uint64_t value) {
  if (value < 1 || value > std::numeric_limits<std::int32_t>::max()) {
    return InvalidArgument("{} is {}, must be 1 to 2^31-1", where, value);
  }
  return TokenCount(static_cast<std::int32_t>(value));
}

StatusOr<ModelFiles> ReadGguf(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(formats::GgufFile file, formats::GgufFile::Open(path));
  TANDEM_ASSIGN_OR_RETURN(auto architecture, file.metadata().GetString("general.architecture"));
  const std::string key = std::string(architecture) + ".context_length";
  TANDEM_ASSIGN_OR_RETURN(std::uint64_t length, file.metadata().GetU64(key));
  TANDEM_ASSIGN_OR_RETURN(TokenCount context, CheckContext(path + ": " + key, length));
  TANDEM_ASSIGN_OR_RETURN(auto tokenizer, tokenizer::LoadTokenizerFromGguf(file));
  return ModelFiles{std::move(tokenizer), context};
}

StatusOr<ModelFiles> ReadFolder(const std::string& path) {
  const std::string config_path = path + "/config.json";
  TANDEM_ASSIGN_OR_RETURN(auto config, formats::ReadJsonFile(config_path));
  const auto* object = config.if_object();
  const auto* length = object == nullptr ? nullptr : object->if_contains("max_position_embeddings");
  if (length == nullptr || !length->is_int64() || length->get_int64() < 1) {
    return InvalidArgument("{}: max_position_embeddings is missing or not a positive integer",
                           config_path);
  }
  TANDEM_ASSIGN_OR_RETURN(TokenCount context,
                          CheckContext(config_path + ": max_position_embeddings",
                                       static_cast<std::uint64_t>(length->get_int64())));
  TANDEM_ASSIGN_OR_RETURN(auto tokenizer, tokenizer::LoadTokenizerFromFolder(path));
  return ModelFiles{std::move(tokenizer), context};
}

}  // namespace

StatusOr<ModelFiles> ReadModelFiles(const std::string& path) {
  std::error_code ec;
  const auto status = std::filesystem::status(path, ec);
  if (!std::filesystem::exists(status)) {
    return NotFound("there is no model at '{}': give --model a .gguf file or a model folder", path);
  }
  return std::filesystem::is_directory(status) ? ReadFolder(path) : ReadGguf(path);
}

std::string ModelName(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  std::string name = std::filesystem::path(path).filename().string();
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  return name.empty() ? "model" : name;
}

}  // namespace tandem::router
