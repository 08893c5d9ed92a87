#include "tests/unit/router/api/test_served_model.h"

#include <span>
#include <utility>

#include "common/base/check.h"
#include "common/formats/gguf.h"
#include "common/tokenizer/tokenizer_loader.h"
#include "tests/testing/gguf_writer.h"
#include "tests/testing/test_tokenizer.h"

namespace tandem::router {

ServedModel MakeServedModel(std::string chat_template) {
  testing::TestTokenizer data = testing::MakeBpeTokenizer();
  data.chat_template = std::move(chat_template);
  testing::GgufWriter writer;
  writer.SetString("general.architecture", "llama");
  data.AddTo(writer);
  const std::string bytes = writer.Finish();
  auto file = formats::GgufFile::FromBytes("test", std::as_bytes(std::span(bytes)));
  TANDEM_CHECK(file.ok());
  auto tokenizer = tokenizer::LoadTokenizerFromGguf(*file);
  TANDEM_CHECK(tokenizer.ok());
  return ServedModel({.ids = {"m", "alias"}, .created_unix_s = 7}, *std::move(tokenizer));
}

TokenIds ByteTokens(const ServedModel& model, std::string_view text) {
  TokenIds ids;
  for (char c : text) {
    for (std::int32_t id = 0; id < model.tokenizer().vocab_size().value(); ++id) {
      if (model.tokenizer().TokenBytes(TokenId(id)) != std::string_view(&c, 1)) continue;
      ids.push_back(TokenId(id));
      break;
    }
  }
  TANDEM_CHECK(ids.size() == text.size());
  return ids;
}

}  // namespace tandem::router
