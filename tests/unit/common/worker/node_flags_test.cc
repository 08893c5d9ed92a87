#include "common/worker/node_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/worker/probe_pattern.h"

namespace tandem::worker {
namespace {

using ::testing::HasSubstr;

constexpr kv::KvLayout kLayout{.num_layers = 2,
                               .num_kv_heads = 1,
                               .head_dim = 16,
                               .block_size = 16,
                               .dtype = kv::KvDtype::kBf16};  // 2048 bytes a block

TEST(NodeFlagsTest, KvMemoryGivesBlocksAndBoundsTheContext) {
  const auto size = FitKv(kLayout, ByteCount(2048 * 10), TokenCount(0), TokenCount(8192));
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(size->num_blocks, kv::BlockCount(10));
  EXPECT_EQ(size->context, TokenCount(160));
}

TEST(NodeFlagsTest, ContextIsTheModelsAtMost) {
  const auto size = FitKv(kLayout, ByteCount(2048 * 1000), TokenCount(9000), TokenCount(512));
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(size->context, TokenCount(512));
}

TEST(NodeFlagsTest, ContextThatDoesNotFitIsAnErrorWithTheMemoryItNeeds) {
  const auto size = FitKv(kLayout, ByteCount(2048 * 10), TokenCount(161), TokenCount(8192));
  EXPECT_EQ(size.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(size.status().ToString(), HasSubstr("at least 22528 bytes"));
}

TEST(NodeFlagsTest, MemoryForLessThanABlockIsAnError) {
  EXPECT_FALSE(FitKv(kLayout, ByteCount(2047), TokenCount(0), TokenCount(512)).ok());
}

TEST(NodeFlagsTest, ValidateNamesTheFlag) {
  NodeFlags flags;
  flags.name = "n";
  flags.listen = "127.0.0.1:0";
  EXPECT_THAT(flags.Validate().ToString(), HasSubstr("--model is missing"));
  flags.model = "m.gguf";
  EXPECT_TRUE(flags.Validate().ok());
  flags.listen = "localhost";
  EXPECT_THAT(flags.Validate().ToString(), HasSubstr("--listen"));
  flags.listen = "[::1]:7";
  flags.kv_memory = ByteCount(0);
  EXPECT_THAT(flags.Validate().ToString(), HasSubstr("--kv-memory is 0"));
}

TEST(NodeFlagsTest, TheWeightsCacheIsAnAbsoluteFolderOrAWord) {
  NodeFlags flags;
  flags.name = "n";
  flags.listen = "127.0.0.1:0";
  flags.model = "m.gguf";
  for (const char* good : {"auto", "off", "/var/cache/weights"}) {
    flags.weights_cache = good;
    EXPECT_TRUE(flags.Validate().ok()) << good;
  }
  for (const char* bad : {"", "weights", "on"}) {
    flags.weights_cache = bad;
    EXPECT_THAT(flags.Validate().ToString(), HasSubstr("--weights-cache")) << bad;
  }
}

TEST(NodeFlagsTest, CpusAreCheckedBeforeAnythingIsLoaded) {
  NodeFlags flags;
  flags.name = "n";
  flags.listen = "127.0.0.1:0";
  flags.model = "m.gguf";
  flags.cpus = "";
  EXPECT_THAT(flags.Validate().ToString(), HasSubstr("--cpus: ''"));
  flags.cpus = "0,zero";
  EXPECT_THAT(flags.Validate().ToString(), HasSubstr("--cpus: 'zero'"));
  flags.cpus = "4095";
  EXPECT_THAT(flags.Validate().ToString(), HasSubstr("--cpus: CPU 4095 does not exist"));
  flags.cpus = FormatCpuList({AllowedCpus()->front()});
  EXPECT_TRUE(flags.Validate().ok());
  EXPECT_EQ(flags.Cpus().size(), 1u);
  flags.threads = 2;
  EXPECT_THAT(flags.Validate().ToString(), HasSubstr("--threads 2 are more than the 1 CPUs"));
}

TEST(NodeFlagsTest, ThreadsThatFillTheCpusAreBoundOnRequest) {
  NodeFlags flags;
  flags.name = "n";
  flags.listen = "127.0.0.1:0";
  flags.model = "m.gguf";
  const CpuList allowed = *AllowedCpus();
  EXPECT_TRUE(flags.Cpus().empty());
  flags.cpus = "auto";
  EXPECT_EQ(flags.Cpus(), allowed);
  flags.threads = static_cast<int>(allowed.size());
  EXPECT_TRUE(flags.Validate().ok());
  EXPECT_EQ(flags.Cpus(), allowed);
  flags.threads += 1;
  EXPECT_TRUE(flags.Validate().ok());
  EXPECT_TRUE(flags.Cpus().empty());
}

TEST(NodeFlagsTest, CoreGroupIsAName) {
  NodeFlags flags;
  flags.name = "n";
  flags.listen = "127.0.0.1:0";
  flags.model = "m.gguf";
  flags.core_group = "host-1.group_2";
  EXPECT_TRUE(flags.Validate().ok());
  flags.core_group = "../passwd";
  EXPECT_THAT(flags.Validate().ToString(), HasSubstr("--core-group: '../passwd' is no name"));
}

TEST(ProbePatternTest, ChecksumFindsAnyChangedByte) {
  std::vector<std::byte> page(kProbeBytes);
  FillProbe(handoff::Incarnation(5), 6, page);
  const std::uint64_t sum = ProbeChecksum(page);
  for (std::size_t i = 0; i < page.size(); i += 97) {
    page[i] ^= std::byte{1};
    EXPECT_NE(ProbeChecksum(page), sum) << i;
    page[i] ^= std::byte{1};
  }
  EXPECT_EQ(ProbeChecksum(page), sum);
}

TEST(ProbePatternTest, StreamsOfProbesAndPlacementsNeverShareATicket) {
  const handoff::PlacementKey key{.request = {.router = handoff::Incarnation(5), .number = 0},
                                  .attempt = handoff::Attempt(1),
                                  .placement = handoff::Placement(0)};
  EXPECT_NE(TicketOf(key), ProbeTicket(handoff::Incarnation(5)));
}

}  // namespace
}  // namespace tandem::worker
