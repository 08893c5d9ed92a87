// Where the time of steps goes, for benchmarks and profiles.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tandem::engine {

// What a thread does within a step. A stage that one step does not have stays at zero.
enum class Stage : std::uint8_t {
  kOutside,    // between steps: batch checks, starting and joining the threads, the caller
  kEmbed,      // embedding rows, and gathering the sampled rows
  kNorm,       // norms with the rounding of their output
  kQkv,        // the matrix products of query, key and value
  kStoreKv,    // head norms, rotary embedding, KV written
  kAttention,  // scores, softmax, values; rounding of its output
  kOutput,     // the matrix product behind attention
  kGateUp,     // the two matrix products of the feed-forward, with SwiGLU where fused
  kActivate,   // SwiGLU and rounding where they are a stage of their own
  kDown,       // the matrix product back
  kHead,       // final norm's product with the vocabulary
  kSample,     // tokens from logits
  kWait,       // at barriers, for other threads
};
inline constexpr std::size_t kStages = static_cast<std::size_t>(Stage::kWait) + 1;

std::string_view Name(Stage stage);  // "gate+up"

// The time that each thread spent in each stage: a thread says when it enters one, and is in it
// until it enters the next. Allocates on construction alone. Each thread calls Enter with its own
// index; the rest is for one thread while no step runs.
class StageTimes {
 public:
  using Now = std::chrono::nanoseconds (*)();
  static std::chrono::nanoseconds SteadyNow();

  // Every thread starts in kOutside. Requires: num_threads >= 1.
  explicit StageTimes(int num_threads, Now now = &SteadyNow);

  void Enter(int thread_idx, Stage stage);

  int num_threads() const { return static_cast<int>(threads_.size()); }
  // Closed intervals only: the stage that a thread is in counts once it enters the next.
  std::chrono::nanoseconds Of(int thread_idx, Stage stage) const;
  // All back to zero, in kOutside from now on.
  void Reset();

 private:
  struct alignas(64) Thread {  // a cache line of its own: no traffic between threads
    std::array<std::chrono::nanoseconds, kStages> spent{};
    std::chrono::nanoseconds since{};
    Stage stage = Stage::kOutside;
  };

  Now now_;
  std::vector<Thread> threads_;
};

}  // namespace tandem::engine
