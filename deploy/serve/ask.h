// Asks one question, streams the answer to the terminal and says what happened on the way.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/client/openai_client.h"

namespace tandem::deploy {

// Errors: those of OpenAiClient::Chat.
Status Ask(client::OpenAiClient& client, const std::string& model, const std::string& question);

// The report under the answer: TTFT, mean ITL, tokens/s, prompt tokens, KV bytes moved, transfer
// time in all and the part of it that was exposed. What the server did not report is left out.
std::string Summary(const client::ChatAnswer& answer);

}  // namespace tandem::deploy
