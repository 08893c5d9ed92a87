#include "router/api/work_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "common/base/mutex.h"

namespace tandem::router {
namespace {

TEST(WorkQueueTest, RunsInOrderAndRefusesWhenFull) {
  std::vector<int> order;
  Notification running;
  Notification go_on;
  Notification done;
  WorkQueue queue(2);
  ASSERT_TRUE(queue.TryRun([&] {
    running.Notify();
    go_on.WaitForNotification();
    order.push_back(1);
  }));
  running.WaitForNotification();  // it runs, so it does not wait any more
  EXPECT_TRUE(queue.TryRun([&] { order.push_back(2); }));
  EXPECT_TRUE(queue.TryRun([&] {
    order.push_back(3);
    done.Notify();
  }));
  EXPECT_FALSE(queue.TryRun([&] { order.push_back(4); }));
  go_on.Notify();
  done.WaitForNotification();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(WorkQueueTest, KeepsNothingAfterItsEnd) {
  auto kept = std::make_shared<int>(0);
  {
    WorkQueue queue(16);
    for (int i = 0; i < 16; ++i) queue.TryRun([kept] {});
  }
  EXPECT_EQ(kept.use_count(), 1) << "run or not, all of it is gone";
}

}  // namespace
}  // namespace tandem::router
