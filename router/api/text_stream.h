// The text of one answer as its tokens come: whole characters, stop strings cut off.
#pragma once

#include <string>
#include <vector>

#include "common/base/units.h"
#include "common/tokenizer/detokenizer.h"
#include "router/api/stop_matcher.h"

namespace tandem::router {

class TextStream {
 public:
  // The tokenizer must outlive it.
  TextStream(const tokenizer::Tokenizer& tokenizer, const std::vector<std::string>& stops)
      : detokenizer_(tokenizer, {.skip_special = true, .start_of_text = false}), stops_(stops) {}

  // Appends the text that has become certain. Whether a stop string is complete; later tokens are
  // not for the client.
  bool Append(TokenId token, std::string& out) {
    stops_.Append(detokenizer_.Append(token), out);
    return stops_.matched();
  }
  // The answer ends here.
  void Finish(std::string& out) {
    stops_.Append(detokenizer_.Flush(), out);
    stops_.Flush(out);
  }

 private:
  tokenizer::Detokenizer detokenizer_;
  StopMatcher stops_;
};

}  // namespace tandem::router
