#include "deploy/sim/trace.h"

#include <fmt/format.h>

namespace tandem::sim {

std::string Describe(const handoff::PlacementKey& key) {
  const std::string placement = key.placement == handoff::kAllPlacements
                                    ? std::string("*")
                                    : fmt::format("{}", key.placement);
  return fmt::format("{}.{}.{}", key.request.number, key.attempt, placement);
}

std::string Describe(const handoff::Message& message) {
  std::string out(handoff::MessageName(message));
  std::visit(
      [&](const auto& m) {
        if constexpr (requires { m.key; }) out += " " + Describe(m.key);
        if constexpr (requires { m.request; }) {
          out += fmt::format(" {}.{}", m.request.number, m.attempt);
        }
        if constexpr (requires { m.reason + 0; }) {
        } else if constexpr (requires { handoff::ToString(m.reason); }) {
          out += fmt::format(" ({})", handoff::ToString(m.reason));
        }
        if constexpr (requires { m.sink; }) out += " on " + m.sink;
        if constexpr (requires { m.first_block; }) {
          out += fmt::format(" layer {} blocks {}+{}", m.first_layer, m.first_block, m.num_blocks);
        }
        if constexpr (requires { m.logprobs; }) {
          out += fmt::format(" first={} count={}", m.first, m.tokens.size());
        }
        if constexpr (requires {
                        m.blocks;
                        m.held;
                      }) {
          out += fmt::format(" blocks={} held={}", m.blocks.size(), m.held);
        }
      },
      message);
  return out;
}

}  // namespace tandem::sim
