// The model that this router serves, as its own side needs it: names, text in and out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/units.h"
#include "common/template/chat_template.h"
#include "common/tokenizer/tokenizer.h"
#include "router/api/completion_request.h"

namespace tandem::router {

// Immutable once built; thread-safe.
class ServedModel {
 public:
  struct Options {
    std::vector<std::string> ids;  // the first is the model's, the others are aliases; not empty
    std::int64_t created_unix_s = 0;
  };

  // The chat template is the tokenizer's; one that does not compile makes chat a 400, not this an
  // error.
  ServedModel(Options options, tokenizer::Tokenizer tokenizer);

  const Options& options() const { return options_; }
  const std::string& id() const { return options_.ids.front(); }
  const tokenizer::Tokenizer& tokenizer() const { return tokenizer_; }
  // Why chat is refused; OK when it is not.
  const Status& chat_status() const { return chat_status_; }

  // Whether `name` is one of the ids, or empty.
  bool Serves(std::string_view name) const;

  // Renders and encodes. Slow for a long prompt: off the strand.
  // Errors: 400 (chat template refuses, not encodable, empty, an id outside the vocabulary).
  ApiResult<TokenIds> MakePrompt(const CompletionRequest& request) const;

 private:
  ApiResult<TokenIds> MakeChatPrompt(const CompletionRequest& request) const;

  Options options_;
  tokenizer::Tokenizer tokenizer_;
  std::optional<chat_template::ChatTemplate> template_;
  Status chat_status_;
};

}  // namespace tandem::router
