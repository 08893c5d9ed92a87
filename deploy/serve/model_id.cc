#include "deploy/serve/model_id.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace tandem::deploy {
namespace {

bool AllDigits(std::string_view s) {
  return !s.empty() &&
         std::all_of(s.begin(), s.end(), [](unsigned char c) { return std::isdigit(c); });
}

std::string Upper(std::string_view s) {
  std::string out(s);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

// "Q4_1", "q5_k_m", "F16", "bf16", "IQ4_NL": what files append for the weights' type.
bool IsWeightType(std::string_view s) {
  const std::string t = Upper(s);
  if (t == "F32" || t == "F16" || t == "BF16" || t == "FP16" || t == "FP32") return true;
  const std::size_t q = t.starts_with("IQ") ? 2 : t.starts_with("Q") ? 1 : 0;
  return q > 0 && q < t.size() && std::isdigit(static_cast<unsigned char>(t[q])) &&
         t.find('_') != std::string::npos;
}

// Drops ".SUFFIX" or "-SUFFIX" when `matches(SUFFIX)`.
template <typename Matches>
void DropEnding(std::string& name, Matches matches) {
  const std::size_t cut = name.find_last_of(".-");
  if (cut != std::string::npos && cut > 0 && matches(std::string_view(name).substr(cut + 1))) {
    name.resize(cut);
  }
}

}  // namespace

std::string ServedModelId(const std::filesystem::path& model) {
  std::filesystem::path path = model;
  if (!path.has_filename()) path = path.parent_path();  // "folder/"
  std::string name = path.filename().string();
  for (std::string_view extension : {".gguf", ".safetensors"}) {
    if (Upper(name).ends_with(Upper(extension))) name.resize(name.size() - extension.size());
  }
  if (const std::size_t of = name.rfind("-of-"); of != std::string::npos && of > 6) {
    if (AllDigits(std::string_view(name).substr(of + 4)) &&
        AllDigits(std::string_view(name).substr(of - 5, 5)) && name[of - 6] == '-') {
      name.resize(of - 6);  // "-00001-of-00002"
    }
  }
  DropEnding(name, IsWeightType);
  return name.empty() ? path.filename().string() : name;
}

}  // namespace tandem::deploy
