// The forked process that receives. It dies with this one.
#pragma once

#include <functional>
#include <string>

#include "kv_transfer/create.h"
#include "tests/integration/transfer/pipe.h"

namespace tandem::transfer::bench {

class Receiver {
 public:
  // Runs `body` in a child, with its end of a pipe; the child exits when it returns.
  explicit Receiver(const std::function<void(Pipe)>& body);
  ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  Pipe& pipe() { return pipe_; }

 private:
  explicit Receiver(std::pair<Pipe, Pipe> pipes, const std::function<void(Pipe)>& body);
  Pipe pipe_;
  int pid_ = -1;
};

// Creates a sink, sends its descriptor, then answers each message with "ok".
void ServeSink(Transport transport, std::uint64_t bytes, const UcxSettings& settings, Pipe pipe);

inline constexpr RegionId kBenchRegion{1};
inline const Ticket kBenchTicket{1, 2, 3};

}  // namespace tandem::transfer::bench
