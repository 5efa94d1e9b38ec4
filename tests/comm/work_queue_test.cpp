#include "colossal/comm/work_queue.h"

#include <gtest/gtest.h>

#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

namespace colossal::comm {
namespace {

TEST(WorkQueue, BlockingJobsRunOnTheCallingThreadWhileNothingIsQueued) {
  WorkQueue queue;
  std::thread::id ran_on;
  queue.run([&] { ran_on = std::this_thread::get_id(); });
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(WorkQueue, BlockingJobsGoBehindQueuedOnes) {
  WorkQueue queue;
  std::latch go(1);
  std::vector<int> order;
  Work first = queue.submit([&] {
    go.wait();
    order.push_back(1);
  });
  Work second = queue.submit([&] { order.push_back(2); });
  std::thread release([&] { go.count_down(); });
  queue.run([&] { order.push_back(3); });
  release.join();
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
  EXPECT_TRUE(first.done());
  EXPECT_TRUE(second.done());
}

TEST(WorkQueue, ExceptionsComeOutOfWaitEachTimeAndLeaveTheQueueUsable) {
  WorkQueue queue;
  Work failed = queue.submit([] { throw std::runtime_error("broken"); });
  Work good = queue.submit([] {});
  EXPECT_THROW(failed.wait(), std::runtime_error);
  EXPECT_THROW(failed.wait(), std::runtime_error);
  EXPECT_NO_THROW(good.wait());
  EXPECT_THROW(queue.run([] { throw std::logic_error("broken"); }), std::logic_error);
  int ran = 0;
  queue.run([&] { ++ran; });
  EXPECT_EQ(ran, 1);
}

TEST(WorkQueue, DestructionFinishesWhatIsQueued) {
  int ran = 0;
  Work work;
  {
    WorkQueue queue;
    for (int i = 0; i < 100; ++i) work = queue.submit([&] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
  EXPECT_TRUE(work.done());
}

TEST(Work, OfNothingIsDone) {
  Work work;
  EXPECT_TRUE(work.done());
  work.wait();
}

}  // namespace
}  // namespace colossal::comm
