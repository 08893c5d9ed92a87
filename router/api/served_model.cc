#include "router/api/served_model.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/marked_text.h"

namespace tandem::router {
namespace {

ApiError ChatRefused(std::string message) {
  return ApiError{.status = 400,
                  .message = std::move(message),
                  .param = "messages",
                  .code = "chat_template_unsupported"};
}

std::string TokenText(const tokenizer::Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? std::string(tokenizer.TokenBytes(*id)) : std::string();
}

ApiError EncodeError(std::string_view field, const Status& status) {
  return FieldError(field, "{} cannot be encoded: {}", field, FromAbsl(status.message()));
}

}  // namespace

ServedModel::ServedModel(Options options, tokenizer::Tokenizer tokenizer)
    : options_(std::move(options)), tokenizer_(std::move(tokenizer)) {
  TANDEM_CHECK(!options_.ids.empty());
  if (!tokenizer_.chat_template()) {
    chat_status_ = FailedPrecondition("this model has no chat template");
    return;
  }
  auto compiled = chat_template::ChatTemplate::Compile(*tokenizer_.chat_template());
  if (compiled.ok()) {
    template_.emplace(*std::move(compiled));
  } else {
    chat_status_ = Annotate(compiled.status(), "this model's chat template");
  }
}

bool ServedModel::Serves(std::string_view name) const {
  return name.empty() ||
         std::find(options_.ids.begin(), options_.ids.end(), name) != options_.ids.end();
}

ApiResult<TokenIds> ServedModel::MakeChatPrompt(const CompletionRequest& request) const {
  if (!template_) {
    return ChatRefused(fmt::format("{}; /v1/completions works", FromAbsl(chat_status_.message())));
  }
  chat_template::RenderInput input;
  input.bos_token = TokenText(tokenizer_, tokenizer_.bos());
  input.eos_token = TokenText(tokenizer_, tokenizer_.eos());
  for (const ChatMessage& message : request.messages) {
    chat_template::Message& out = input.messages.emplace_back();
    out.role = message.role;
    out.content = message.content;
    if (!message.name.empty()) out.fields["name"] = message.name;
  }
  StatusOr<MarkedText> text = template_->Render(input);
  if (!text.ok()) {
    return ApiError{.status = 400,
                    .message = fmt::format("the chat template refuses these messages: {}",
                                           FromAbsl(text.status().message())),
                    .param = "messages",
                    .code = "chat_template_error"};
  }
  StatusOr<TokenIds> ids =
      tokenizer_.Encode(*text, {.add_special_tokens = false, .parse_special = true});
  if (!ids.ok()) return EncodeError("messages", ids.status());
  return *std::move(ids);
}

ApiResult<TokenIds> ServedModel::MakePrompt(const CompletionRequest& request) const {
  if (request.kind == CompletionKind::kChat) return MakeChatPrompt(request);
  if (const TokenIds* ids = std::get_if<TokenIds>(&request.prompt)) {
    for (std::size_t i = 0; i < ids->size(); ++i) {
      if ((*ids)[i] >= TokenId(tokenizer_.vocab_size().value())) {
        return FieldError("prompt", "prompt[{}] is {}, must be a token id below {}", i, (*ids)[i],
                          tokenizer_.vocab_size());
      }
    }
    return *ids;
  }
  // Special tokens in a completion's prompt are the client's own choice.
  StatusOr<TokenIds> ids =
      tokenizer_.Encode(MarkedText::Trusted(std::get<std::string>(request.prompt)),
                        {.add_special_tokens = true, .parse_special = true});
  if (!ids.ok()) return EncodeError("prompt", ids.status());
  if (ids->empty()) return FieldError("prompt", "prompt is empty, must have a token");
  return *std::move(ids);
}

}  // namespace tandem::router
