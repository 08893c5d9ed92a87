#include "common/scheduler/decode_policy.h"

namespace tandem::scheduler {

void PlanDecode(std::span<const DecodeCandidate> candidates, kv::BlockCount available,
                std::int32_t most, std::size_t turn, std::vector<DecodeChoice>& choices) {
  const std::size_t base = choices.size();
  choices.resize(base + candidates.size(), DecodeChoice::kWait);
  const std::size_t n = candidates.size();
  if (n == 0) return;
  // Who has a place in this step. Without pressure on places all that have credit do.
  std::int32_t places = most;
  for (std::size_t k = 0; k < n && places > 0; ++k) {
    const std::size_t i = (turn + k) % n;
    if (!candidates[i].has_credit) continue;
    choices[base + i] = DecodeChoice::kRun;
    --places;
  }
  // Blocks, oldest first; the youngest pay.
  std::size_t youngest = n;  // [youngest, n) are preempted
  std::int32_t free = available.value();
  for (std::size_t i = 0; i < youngest; ++i) {
    if (choices[base + i] != DecodeChoice::kRun || !candidates[i].needs_block) continue;
    while (free < 1 && youngest > i + 1) {
      --youngest;
      // One that was given a block in this very round cannot be younger than i.
      free += candidates[youngest].gives_back.value();
      choices[base + youngest] = DecodeChoice::kPreempt;
    }
    if (free >= 1) {
      --free;
    } else if (i > 0) {
      youngest = i;
      choices[base + i] = DecodeChoice::kPreempt;
    } else {
      choices[base + i] = DecodeChoice::kWait;
    }
  }
}

}  // namespace tandem::scheduler
