#include "deploy/chat/chat.h"

#include <histedit.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>

namespace tandem::deploy {
namespace {

// Lines from a terminal with editing and history (libedit), or plainly from a pipe.
class LineReader {
 public:
  LineReader() {
    if (::isatty(STDIN_FILENO) == 0) return;
    edit_ = ::el_init("tandem", stdin, stdout, stderr);
    history_ = ::history_init();
    HistEvent event;
    ::history(history_, &event, H_SETSIZE, 1000);
    ::el_set(edit_, EL_EDITOR, "emacs");
    ::el_set(edit_, EL_HIST, ::history, history_);
    ::el_set(
        edit_, EL_PROMPT, +[](EditLine*) { return prompt_; });
  }
  LineReader(const LineReader&) = delete;
  ~LineReader() {
    if (edit_ != nullptr) {
      ::el_end(edit_);
      ::history_end(history_);
    }
  }

  // Nothing at the end of input.
  std::optional<std::string> Read(bool more) {
    std::string line;
    if (edit_ == nullptr) return std::getline(std::cin, line) ? std::optional(line) : std::nullopt;
    std::snprintf(prompt_, sizeof prompt_, "%s", more ? "... " : "> ");
    int count = 0;
    const char* text = ::el_gets(edit_, &count);
    if (text == nullptr || count <= 0) return std::nullopt;
    line.assign(text, static_cast<std::size_t>(count));
    while (line.ends_with('\n')) line.pop_back();
    HistEvent event;
    if (!line.empty()) ::history(history_, &event, H_ENTER, line.c_str());
    return line;
  }

 private:
  static inline char prompt_[8] = "> ";  // el_prompt takes a plain function
  EditLine* edit_ = nullptr;
  History* history_ = nullptr;
};

// While it lives, SIGINT cancels the client's running answer instead of ending the program.
class InterruptWatch {
 public:
  explicit InterruptWatch(client::OpenAiClient& client) {
    ::sigemptyset(&set_);
    ::sigaddset(&set_, SIGINT);
    ::sigaddset(&set_, SIGUSR2);  // ends the thread
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    thread_ = std::thread([this, &client] {
      int signal = 0;
      while (::sigwait(&set_, &signal) == 0 && signal == SIGINT) {
        if (answering_) client.Cancel();
      }
    });
  }
  ~InterruptWatch() {
    ::pthread_kill(thread_.native_handle(), SIGUSR2);
    thread_.join();
  }
  void SetAnswering(bool answering) { answering_ = answering; }

 private:
  sigset_t set_;
  std::atomic<bool> answering_{false};
  std::thread thread_;
};

StatusOr<client::ChatRequest> FirstRequest(const ChatOptions& options,
                                           client::OpenAiClient& client) {
  client::ChatRequest request;
  request.model = options.model;
  if (request.model.empty()) {
    TANDEM_ASSIGN_OR_RETURN(auto models, client.Models());
    if (models.empty()) return NotFound("{} serves no model", options.url);
    request.model = models.front();
  }
  if (options.max_tokens > 0) request.extra["max_tokens"] = options.max_tokens;
  if (!options.temperature.empty()) {
    char* end = nullptr;
    const double value = std::strtod(options.temperature.c_str(), &end);
    if (*end != 0 || !(value >= 0 && value <= 2)) {
      return InvalidArgument("--temperature is '{}', must be 0..2", options.temperature);
    }
    request.extra["temperature"] = value;
  }
  return request;
}

void Answer(client::OpenAiClient& client, client::ChatRequest& request, Conversation& conversation,
            InterruptWatch& watch) {
  request.messages = conversation.messages();
  std::string said;
  watch.SetAnswering(true);
  auto answer = client.Chat(request, [&](std::string_view text) {
    said += text;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  });
  watch.SetAnswering(false);
  std::printf("\n");
  if (!answer.ok() && !absl::IsCancelled(answer.status())) {
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s\n", std::string(FromAbsl(answer.status().message())).c_str());
  }
  conversation.TakeAnswer(said);
}

}  // namespace

void ChatOptions::Register(config::ProgramOptions& options) {
  using namespace config;
  options.Add("url", "URL", "the server, http or https", Text(&url));
  options.Add("api-key", "KEY", "sent as a bearer token (none)", Text(&api_key));
  options.Add("model", "ID", "the model (the server's first)", Text(&model));
  options.Add("system", "TEXT", "a system message (none)", Text(&system));
  options.Add("temperature", "T", "0..2 (the server's default)", Text(&temperature));
  options.Add("max-tokens", "N", "longest answer; 0: the server's default",
              Int(&max_tokens, 0, 1 << 24));
}

Status Chat(const ChatOptions& options) {
  TANDEM_ASSIGN_OR_RETURN(auto client, client::OpenAiClient::Create(
                                           {.base_url = options.url, .api_key = options.api_key}));
  TANDEM_ASSIGN_OR_RETURN(client::ChatRequest request, FirstRequest(options, *client));
  std::fprintf(stderr, "Talking to %s at %s; /help tells more.\n", request.model.c_str(),
               options.url.c_str());
  Conversation conversation(options.system);
  InterruptWatch watch(*client);
  LineReader reader;
  bool more = false;
  while (auto line = reader.Read(more)) {
    const Conversation::Step step = conversation.TakeLine(*line);
    more = step == Conversation::Step::kMore;
    if (step == Conversation::Step::kQuit) break;
    if (step == Conversation::Step::kCommand) std::printf("%s\n", conversation.output().c_str());
    if (step == Conversation::Step::kSend) Answer(*client, request, conversation, watch);
  }
  return OkStatus();
}

}  // namespace tandem::deploy
