#include "deploy/sim/simulation.h"

#include <gtest/gtest.h>

namespace tandem::sim {
namespace {

// Runs `histories` seeds from `first`; stops at the first broken one.
SimReport Sum(SimOptions options, std::uint64_t first, int histories) {
  SimReport sum;
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(histories); ++seed) {
    options.seed = seed;
    const SimReport report = Simulate(options);
    if (!report.ok()) {
      ADD_FAILURE() << "seed " << seed << ": " << report.violation << " (event " << report.events
                    << ")";
      break;
    }
    sum.events += report.events;
    sum.done += report.done;
    sum.cancelled += report.cancelled;
    sum.prefill.AddCounters(report.prefill);
    sum.decode.AddCounters(report.decode);
    sum.router.repeats += report.router.repeats;
    sum.router.repeats_different += report.router.repeats_different;
    sum.prefill_nodes_used += report.prefill_nodes_used == options.prefill_nodes;
    sum.decode_nodes_used += report.decode_nodes_used == options.decode_nodes;
  }
  std::printf(
      "seeds %llu..%llu: %llu events, %d done, %d cancelled, %lld cached tokens, %lld held "
      "blocks, %lld preempted, %lld full, %lld revokes, %lld repeats\n",
      static_cast<unsigned long long>(first),
      static_cast<unsigned long long>(first) + static_cast<unsigned>(histories) - 1,
      static_cast<unsigned long long>(sum.events), sum.done, sum.cancelled,
      static_cast<long long>(sum.prefill.cached_tokens),
      static_cast<long long>(sum.prefill.held_blocks), static_cast<long long>(sum.decode.preempted),
      static_cast<long long>(sum.decode.refused_full), static_cast<long long>(sum.decode.revokes),
      static_cast<long long>(sum.router.repeats));
  return sum;
}

TEST(Simulation, EveryStreamIsTheReferenceStreamAndNothingIsLeft) {
  const SimReport sum = Sum({}, 1, 150);
  EXPECT_GT(sum.done, 1000);
  EXPECT_GT(sum.cancelled, 0);
  EXPECT_GT(sum.prefill.cached_tokens, 0);
  EXPECT_GT(sum.prefill.held_blocks, 0);
  EXPECT_GT(sum.decode.revokes, 0);
  EXPECT_GT(sum.router.repeats, 0);
  EXPECT_EQ(sum.router.repeats_different, 0);
  EXPECT_GT(sum.prefill_nodes_used, 140);  // two of each share the work
  EXPECT_GT(sum.decode_nodes_used, 140);
}

TEST(Simulation, HoldsWithDataMessages) {
  SimOptions options;
  options.proof = handoff::Proof::kReceives;
  EXPECT_GT(Sum(options, 1001, 100).done, 700);
}

TEST(Simulation, FullDecodeNodesPreemptAndStillGiveTheSameTokens) {
  SimOptions options;
  options.decode_blocks = 16;
  options.prompt_max = 40;
  options.output_max = 200;
  options.arrivals = std::chrono::milliseconds(5);
  options.cancel_percent = 0;
  const SimReport sum = Sum(options, 2001, 60);
  EXPECT_GT(sum.decode.preempted, 3);
  EXPECT_GT(sum.decode.refused_full, 0);
  EXPECT_EQ(sum.done, 60 * options.requests);
}

TEST(Simulation, TightPrefillNodesMakeRequestsWait) {
  SimOptions options;
  options.prefill_blocks = 14;
  options.prefill_nodes = 1;
  options.decode_nodes = 1;
  EXPECT_GT(Sum(options, 3001, 60).done, 400);
}

TEST(Simulation, HoldsWithCancelsEverywhere) {
  SimOptions options;
  options.cancel_percent = 80;
  options.stop_string_percent = 40;
  options.link.bytes_per_second = 1e7;  // long writes to be cancelled
  const SimReport sum = Sum(options, 4001, 100);
  EXPECT_GT(sum.cancelled, 300);
}

TEST(Simulation, HoldsWithOneLayerOddBlocksAndOneNodeOfEach) {
  SimOptions options;
  options.num_layers = 1;
  options.block_size = 5;  // no prefix cache: blocks are not whole granules
  options.prefill_nodes = options.decode_nodes = 1;
  options.prefill_blocks = options.decode_blocks = 200;
  const SimReport sum = Sum(options, 5001, 40);
  EXPECT_EQ(sum.prefill.cached_tokens, 0);
  EXPECT_GT(sum.done, 300);
}

TEST(Simulation, TheSameSeedGivesTheSameHistory) {
  SimOptions options;
  options.seed = 77;
  const SimReport a = Simulate(options), b = Simulate(options);
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(a.virtual_time, b.virtual_time);
  EXPECT_EQ(a.decode.tokens, b.decode.tokens);
}

}  // namespace
}  // namespace tandem::sim
