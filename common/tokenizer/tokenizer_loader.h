// Reads a model's tokenizer from its files. What a file asks for and this code does not know (a
// pre-tokenizer, a normaliser, a model kind) is an error that names it; nothing falls back to a
// default.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/tokenizer_data.h"

namespace tandem::formats {
class GgufFile;
}  // namespace tandem::formats

namespace tandem::tokenizer {

// The texts of a Hugging Face model folder; all but the first may be empty.
struct TokenizerFiles {
  std::string tokenizer_json = {};
  std::string tokenizer_config_json = {};   // bos, eos, chat template
  std::string generation_config_json = {};  // eos ids
  std::string config_json = {};             // eos ids, where generation_config.json has none
  std::string chat_template_jinja = {};     // wins over the one in tokenizer_config.json
};

// Errors: InvalidArgument names the key and its value.
StatusOr<TokenizerData> ReadGgufTokenizer(const formats::GgufFile& file);
StatusOr<TokenizerData> ReadJsonTokenizer(const TokenizerFiles& files);

StatusOr<Tokenizer> LoadTokenizerFromGguf(const formats::GgufFile& file);
// Reads tokenizer.json and the files beside it.
// Errors: NotFound without tokenizer.json; InvalidArgument as above.
StatusOr<Tokenizer> LoadTokenizerFromFolder(const std::string& folder);

}  // namespace tandem::tokenizer
