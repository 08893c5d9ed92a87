// An HTTP server of the tests' own that answers as a test says, byte for byte: it stalls, resets
// and breaks off as real servers do when something dies.
//
//   ScriptedServer server([](const ScriptedServer::Request& request) {
//     return ScriptedServer::Answer{ScriptedServer::Stream({Event("hi"), kDone})};
//   });
//
// One thread per connection; the script runs in it, so several at once.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/scoped_fd.h"

namespace tandem::testing {

class ScriptedServer {
 public:
  enum class Then {
    kNext,   // reads the next request of the connection
    kClose,  // in order
    kReset,  // RST
    kHang,   // until the client closes, or the server is destroyed
  };
  struct Request {
    std::string path;
    std::string head;
    std::string body;
  };
  struct Answer {
    std::string bytes;
    Then then = Then::kNext;
  };
  using Script = std::function<Answer(const Request&)>;

  explicit ScriptedServer(Script script);
  // Ends all connections.
  ~ScriptedServer();

  std::string url() const;
  // At any time since the start: connections that were accepted; requests that were answered.
  int num_connections() const { return num_connections_; }

  // A whole answer with a length.
  static std::string Whole(int status, std::string_view body,
                           std::string_view type = "application/json");
  // A head and `events` as chunks of a stream; `end`: with the last chunk.
  static std::string Stream(const std::vector<std::string>& events, bool end = true);

 private:
  void Accept();
  void Serve(int fd);

  Script script_;
  ScopedFd listener_;
  int port_ = 0;
  std::atomic<int> num_connections_{0};
  std::mutex mutex_;
  bool stopping_ = false;           // under mutex_
  std::list<ScopedFd> peers_;       // under mutex_; closed at the end, so no number is used twice
  std::list<std::thread> threads_;  // under mutex_
  std::thread accept_thread_;
};

// One stream event of /v1/completions with `text`; `finish`: its finish_reason.
std::string TextEvent(std::string_view text, std::string_view finish = {});
std::string UsageEvent(int prompt_tokens, int completion_tokens);
inline constexpr char kDoneEvent[] = "data: [DONE]\n\n";

}  // namespace tandem::testing
