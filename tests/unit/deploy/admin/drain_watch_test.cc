#include "deploy/admin/drain_watch.h"

#include <gtest/gtest.h>

namespace tandem::deploy {
namespace {

NodeRow Node(const std::string& name, const std::string& role, const std::string& state,
             std::int64_t pairs, const std::string& incarnation = "1") {
  return {.name = name,
          .role = role,
          .incarnation = incarnation,
          .state = state,
          .usable_pairs = pairs};
}

TEST(DrainWatchTest, WaitsUntilTheNodeHasEndedInOrder) {
  const auto watch = DrainWatch::Begin({Node("d0", "decode", "up", 1)}, "d0");
  ASSERT_TRUE(watch.ok());
  EXPECT_FALSE(*watch->IsGone({Node("d0", "decode", "draining", 0)}));
  EXPECT_TRUE(*watch->IsGone({Node("d0", "decode", "drained", 0)}));
}

TEST(DrainWatchTest, AnotherLifeUnderTheNameMeansTheOldOneIsGone) {
  const auto watch = DrainWatch::Begin({Node("d0", "decode", "up", 1)}, "d0");
  EXPECT_TRUE(*watch->IsGone({Node("d0", "decode", "up", 1, "2")}));
  EXPECT_TRUE(*watch->IsGone({}));
}

TEST(DrainWatchTest, ANodeThatDiesWhileItDrainsIsAnError) {
  const auto watch = DrainWatch::Begin({Node("d0", "decode", "up", 1)}, "d0");
  NodeRow lost = Node("d0", "decode", "lost", 0);
  lost.last_error = "connection lost";
  const auto gone = watch->IsGone({lost});
  EXPECT_EQ(gone.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(gone.status().ToString().find("connection lost"), std::string::npos);
}

TEST(DrainWatchTest, NamesTheNodesThereAre) {
  const auto watch =
      DrainWatch::Begin({Node("d0", "decode", "up", 1), Node("p0", "prefill", "up", 1)}, "d1");
  EXPECT_EQ(watch.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(watch.status().ToString().find("d0, p0"), std::string::npos);
}

TEST(DrainWatchTest, SaysWhenNoPairWillBeLeft) {
  const std::vector<NodeRow> one_each = {Node("p0", "prefill", "up", 1),
                                         Node("d0", "decode", "up", 1)};
  EXPECT_TRUE(DrainWatch::Begin(one_each, "d0")->LeavesNoPair(one_each));
  EXPECT_TRUE(DrainWatch::Begin(one_each, "p0")->LeavesNoPair(one_each));
  const std::vector<NodeRow> two_each = {
      Node("p0", "prefill", "up", 2), Node("p1", "prefill", "up", 2), Node("d0", "decode", "up", 2),
      Node("d1", "decode", "up", 2)};
  EXPECT_FALSE(DrainWatch::Begin(two_each, "d0")->LeavesNoPair(two_each));
  EXPECT_FALSE(DrainWatch::Begin(two_each, "p0")->LeavesNoPair(two_each));
}

TEST(NodeRowsTest, ReadsWhatTheRouterSaysAndPrintsATable) {
  const auto rows = ParseNodes(
      R"({"usable_pairs":1,"nodes":[{"name":"p0","role":"prefill","state":"up","requests":3,)"
      R"("address":"127.0.0.1:1","free_blocks":7,"total_blocks":9,"quarantined_blocks":1,)"
      R"("step_running_ms":12.4,"usable_pairs":1,"last_error":null},)"
      R"({"name":"","role":"decode","state":"lost","address":"h:2","last_error":"refused"}]})");
  ASSERT_TRUE(rows.ok());
  const std::string table = NodesTable(*rows);
  EXPECT_NE(table.find("NAME  ROLE     STATE  ADDRESS"), std::string::npos) << table;
  EXPECT_NE(table.find("7/9 (-1)"), std::string::npos) << table;
  EXPECT_NE(table.find("12 ms"), std::string::npos) << table;
  EXPECT_NE(table.find("refused\n"), std::string::npos) << table;
}

TEST(NodeRowsTest, RefusesWhatIsNoListOfNodes) {
  for (const char* text : {"", "{}", "[]", R"({"nodes":{}})", R"({"nodes":[1]})", "<html>"}) {
    EXPECT_FALSE(ParseNodes(text).ok()) << text;
  }
}

}  // namespace
}  // namespace tandem::deploy
