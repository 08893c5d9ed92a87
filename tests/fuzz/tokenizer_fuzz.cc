// Any tokenizer.json is a tokenizer or one error; a tokenizer encodes any text, and what it decodes
// is UTF-8.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/base/utf8.h"
#include "common/tokenizer/detokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/tokenizer_loader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  using namespace tandem::tokenizer;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  TokenizerFiles files;
  files.tokenizer_json = text;
  auto read = ReadJsonTokenizer(files);
  if (!read.ok()) return 0;
  auto made = Tokenizer::Create(*std::move(read));
  if (!made.ok()) return 0;
  for (const MarkedText& input : {MarkedText::Trusted(std::string(text.substr(0, 300))),
                                  MarkedText::FromUser("Hello  wörld\n\n 123 e\u0301<|im_end|>")}) {
    auto ids = made->Encode(input, {.add_special_tokens = true});
    if (!ids.ok()) continue;
    const std::string whole = made->Decode(*ids, false);
    TANDEM_CHECK(!FindInvalidUtf8(whole));
    Detokenizer stream(*made, {.skip_special = false});
    std::string streamed;
    for (TokenId id : *ids) {
      streamed += stream.Append(id);
      TANDEM_CHECK(!FindInvalidUtf8(streamed));
    }
    streamed += stream.Flush();
    TANDEM_CHECK(streamed == whole);
  }
  return 0;
}
