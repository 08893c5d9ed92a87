// `tandem chat`: a conversation in the terminal with any OpenAI-compatible server.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/client/openai_client.h"
#include "common/config/program_options.h"

namespace tandem::deploy {

struct ChatOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string api_key;
  std::string model;        // empty: the server's first
  std::string system;       // a system message; empty: none
  std::string temperature;  // as given; empty: the server's default
  int max_tokens = 0;       // 0: the server's default

  void Register(config::ProgramOptions& options);
};

// One conversation; knows the commands (/help, /reset, /system TEXT, /quit) and how a message of
// several lines is typed: a line that ends in "\" goes on, and so does all between two lines of
// """.
class Conversation {
 public:
  explicit Conversation(std::string system) { Reset(std::move(system)); }

  enum class Step { kMore, kSend, kCommand, kQuit };
  // Takes one line. kSend: messages() now ends with what the user said. kCommand: output() has its
  // answer.
  Step TakeLine(const std::string& line);
  const std::string& output() const { return output_; }

  const std::vector<client::ChatMessage>& messages() const { return messages_; }
  // What the assistant said, or had said when it was stopped; empty: the question is taken back.
  void TakeAnswer(const std::string& text);

 private:
  void Reset(std::string system);
  Step Command(const std::string& line);

  std::string system_;
  std::vector<client::ChatMessage> messages_;
  std::string pending_;
  bool in_block_ = false;
  std::string output_;
};

// Runs until end of input or /quit. Ctrl-C stops the answer that is being written, not the program.
Status Chat(const ChatOptions& options);

}  // namespace tandem::deploy
