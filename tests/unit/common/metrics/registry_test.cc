#include "common/metrics/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::metrics {
namespace {

using ::testing::HasSubstr;

TEST(Registry, WritesPrometheusText) {
  Registry registry;
  registry.AddCounter("tandem_test_events_total", "Events.").Increment(3);
  registry.AddGauge("tandem_test_blocks", "Blocks.", {{"state", "free"}}).Set(7);
  registry.AddHistogram("tandem_test_seconds", "Time.", {0.5, 1}).Observe(0.7);
  const std::string text = registry.Text();
  EXPECT_THAT(text, HasSubstr("# HELP tandem_test_events_total Events."));
  EXPECT_THAT(text, HasSubstr("# TYPE tandem_test_events_total counter"));
  EXPECT_THAT(text, HasSubstr("tandem_test_events_total 3"));
  EXPECT_THAT(text, HasSubstr("tandem_test_blocks{state=\"free\"} 7"));
  EXPECT_THAT(text, HasSubstr("tandem_test_seconds_bucket{le=\"1\"} 1"));
}

TEST(Registry, SameNameAndLabelsIsOneMetric) {
  Registry registry;
  Counter& a = registry.AddCounter("tandem_test_total", "T.", {{"node", "a"}});
  Counter& again = registry.AddCounter("tandem_test_total", "T.", {{"node", "a"}});
  Counter& b = registry.AddCounter("tandem_test_total", "T.", {{"node", "b"}});
  EXPECT_EQ(&a, &again);
  EXPECT_NE(&a, &b);
}

}  // namespace
}  // namespace tandem::metrics
