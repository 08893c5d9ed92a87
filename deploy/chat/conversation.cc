#include "deploy/chat/chat.h"

namespace tandem::deploy {

Conversation::Step Conversation::TakeLine(const std::string& line) {
  if (in_block_) {
    if (line == "\"\"\"") {
      in_block_ = false;
    } else {
      pending_ += line + "\n";
      return Step::kMore;
    }
  } else if (line == "\"\"\"" && pending_.empty()) {
    in_block_ = true;
    return Step::kMore;
  } else if (line.ends_with('\\')) {
    pending_ += line.substr(0, line.size() - 1) + "\n";
    return Step::kMore;
  } else if (pending_.empty() && line.starts_with('/')) {
    return Command(line);
  } else {
    pending_ += line + "\n";
  }
  std::string text = std::move(pending_);
  pending_.clear();
  while (text.ends_with('\n')) text.pop_back();
  if (text.empty()) return Step::kMore;
  messages_.push_back({"user", std::move(text)});
  return Step::kSend;
}

Conversation::Step Conversation::Command(const std::string& line) {
  const std::size_t space = line.find(' ');
  const std::string name = line.substr(0, space);
  if (name == "/quit" || name == "/exit") return Step::kQuit;
  if (name == "/reset") {
    Reset(system_);
    output_ = "The conversation starts anew.";
  } else if (name == "/system") {
    Reset(space == std::string::npos ? "" : line.substr(space + 1));
    output_ = system_.empty() ? "No system message now."
                              : "The conversation starts anew with that system message.";
  } else {
    output_ = name == "/help" ? "" : "There is no command " + name + ".\n";
    output_ +=
        "/reset  start anew      /system TEXT  start anew with a system message      /quit or "
        "Ctrl-D  leave\n"
        "A line that ends in \\ goes on; \"\"\" begins and ends a message of several lines. Ctrl-C "
        "stops an answer.";
  }
  return Step::kCommand;
}

void Conversation::Reset(std::string system) {
  system_ = std::move(system);
  messages_.clear();
  if (!system_.empty()) messages_.push_back({"system", system_});
}

void Conversation::TakeAnswer(const std::string& text) {
  if (text.empty()) {
    messages_.pop_back();
  } else {
    messages_.push_back({"assistant", text});
  }
}

}  // namespace tandem::deploy
