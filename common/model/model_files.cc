#include "common/model/model_files.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/formats/gguf.h"
#include "common/formats/json_file.h"
#include "common/formats/safetensors.h"
#include "common/model/config_gguf.h"
#include "common/model/config_hf.h"

namespace tandem::model {
namespace {

namespace fs = std::filesystem;

StatusOr<ModelFiles> OpenGguf(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(formats::GgufFile file, formats::GgufFile::Open(path));
  TANDEM_ASSIGN_OR_RETURN(ModelConfig config, ConfigFromGguf(file));
  return ModelFiles{std::make_unique<formats::GgufFile>(std::move(file)), Naming::kGguf,
                    std::move(config)};
}

StatusOr<ModelFiles> OpenSafetensors(const std::string& path, const fs::path& folder) {
  const std::string config_path = (folder / "config.json").string();
  TANDEM_ASSIGN_OR_RETURN(boost::json::value json, formats::ReadJsonFile(config_path));
  boost::json::value generation;
  const std::string generation_path = (folder / "generation_config.json").string();
  std::error_code ignored;
  if (fs::exists(generation_path, ignored)) {
    TANDEM_ASSIGN_OR_RETURN(generation, formats::ReadJsonFile(generation_path));
  }
  TANDEM_ASSIGN_OR_RETURN(ModelConfig config, ConfigFromHf(config_path, json, generation));
  TANDEM_ASSIGN_OR_RETURN(formats::SafetensorsModel model, formats::SafetensorsModel::Open(path));
  return ModelFiles{std::make_unique<formats::SafetensorsModel>(std::move(model)),
                    Naming::kHuggingFace, std::move(config)};
}

}  // namespace

StatusOr<ModelFiles> OpenModelFiles(const std::string& path) {
  const fs::path file(path);
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) return OpenSafetensors(path, file);
  if (file.extension() == ".safetensors") return OpenSafetensors(path, file.parent_path());
  return OpenGguf(path);
}

}  // namespace tandem::model
