#include "colossal/memory/fetch_plan.h"

#include <gmock/gmock.h>

#include <set>

namespace colossal::memory {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Four layers of one chunk each, forward and backward, and a chunk that all of them use.
const std::vector<int> kOrder{4, 0, 4, 1, 4, 2, 4, 3, 3, 4, 2, 4, 1, 4, 0};
const std::vector<int64_t> kBytes{100, 100, 100, 100, 1};

// Returns how often each of `num_chunks` chunks is fetched.
std::vector<int64_t> num_fetches(const FetchPlan& plan, int num_chunks) {
  std::vector<int64_t> fetches(num_chunks);
  for (const FetchStep& step : plan.steps) {
    for (int chunk : step.fetch) ++fetches[chunk];
  }
  return fetches;
}

TEST(FetchPlan, FetchesAheadAndLetsGoBehind) {
  const FetchPlan plan = plan_fetches({0, 1, 2, 1, 0}, {10, 10, 10}, 20);
  ASSERT_EQ(plan.steps.size(), 5);
  EXPECT_THAT(plan.steps[0].fetch, ElementsAre(0, 1));
  EXPECT_THAT(plan.steps[1].release, ElementsAre(0));
  EXPECT_THAT(plan.steps[1].fetch, ElementsAre(2));
  EXPECT_THAT(plan.steps[2].fetch, IsEmpty());  // chunk 1 was kept for the backward pass
  EXPECT_THAT(plan.steps[3].release, ElementsAre(2));
  EXPECT_THAT(plan.steps[3].fetch, ElementsAre(0));
  EXPECT_THAT(plan.steps[4].release, ElementsAre(1));
  EXPECT_THAT(plan.release_at_end, ElementsAre(0));
  EXPECT_EQ(peak_bytes(plan, {10, 10, 10}), 20);
}

TEST(FetchPlan, FetchesTwiceWhatIsNotAtTheTurn) {
  EXPECT_THAT(num_fetches(plan_fetches(kOrder, kBytes, 0), 5), ElementsAre(2, 2, 2, 1, 1));
  EXPECT_THAT(num_fetches(plan_fetches({0, 1, 2, 3, 2, 1, 0}, kBytes, 300), 5),
              ElementsAre(2, 1, 1, 1, 0));
  EXPECT_THAT(num_fetches(plan_fetches(kOrder, kBytes, 1000), 5), ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(num_fetches(plan_all_at_once({0, 1, 2}), 3), ElementsAre(1, 1, 1));
}

// Between the passes, chunks that are not used soon are released, others stay, and none is fetched.
TEST(FetchPlan, LetsGoOfTheHeadBetweenThePasses) {
  const FetchPlan plan = plan_fetches({0, 1, 2, kEndOfForward, 1, 0}, {10, 10, 50}, 30);
  EXPECT_THAT(plan.steps[1].fetch, ElementsAre(2));
  EXPECT_THAT(plan.steps[2].release, IsEmpty());  // chunk 1 was kept for the backward pass
  EXPECT_EQ(plan.steps[3].chunk, kEndOfForward);
  EXPECT_THAT(plan.steps[3].release, ElementsAre(2));
  EXPECT_THAT(plan.steps[3].fetch, IsEmpty());
  EXPECT_THAT(plan.steps[4].release, IsEmpty());
  EXPECT_THAT(plan.steps[4].fetch, ElementsAre(0));
  // The chunk that the backward pass begins with stays.
  EXPECT_THAT(plan_fetches({0, 1, kEndOfForward, 1, 0}, {10, 10}, 10).steps[2].release, IsEmpty());
}

// What the next round uses first is fetched while the last chunk of this round is used.
TEST(FetchPlan, RepeatsWithoutAnEnd) {
  const FetchPlan plan = plan_repeated_fetches({0, 1, 2, 3}, {10, 10, 10, 10}, 20);
  ASSERT_EQ(plan.repeat_from, 4);
  ASSERT_EQ(plan.steps.size(), 8);
  EXPECT_THAT(plan.steps[0].fetch, ElementsAre(0, 1));  // no chunk is fetched yet
  for (const size_t round : {1, 2, 9}) {
    EXPECT_EQ(plan.step(4 * round - 1)->chunk, 3);
    EXPECT_THAT(plan.step(4 * round - 1)->fetch, ElementsAre(0));
    EXPECT_EQ(plan.step(4 * round)->chunk, 0);
    EXPECT_THAT(plan.step(4 * round)->fetch, ElementsAre(1));
    EXPECT_THAT(plan.step(4 * round)->release, ElementsAre(3));
  }
  EXPECT_EQ(peak_bytes(plan, {10, 10, 10, 10}), 20);
  // A tied table stays from the end of a round to the beginning of the next.
  const FetchPlan tied = plan_repeated_fetches({0, 1, 2, 0}, {10, 10, 10}, 20);
  EXPECT_EQ(tied.repeat_from, 3);
  EXPECT_THAT(tied.step(3)->fetch, ElementsAre(1));
  // If all chunks fit, each is fetched once.
  const FetchPlan all = plan_repeated_fetches({0, 1}, {10, 10}, 20);
  EXPECT_THAT(num_fetches(all, 2), ElementsAre(1, 1));
  EXPECT_EQ(plan_fetches({0, 1}, {10, 10}, 20).step(2), nullptr);
}

// In any order of use, a chunk is fetched when it is used, nothing is fetched or released twice,
// and no more than the window is fetched ahead.
TEST(FetchPlan, HoldsItsPromisesForAnyOrder) {
  uint64_t state = 1;
  const auto random = [&](int below) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return static_cast<int>((state >> 33) % static_cast<uint64_t>(below));
  };
  for (int trial = 0; trial < 200; ++trial) {
    const int chunks = 1 + random(8);
    std::vector<int64_t> bytes;
    for (int i = 0; i < chunks; ++i) bytes.push_back(1 + random(50));
    std::vector<int> order;
    for (int i = 0; i < 30; ++i) {
      const int next = random(chunks);
      if (order.empty() || order.back() != next) order.push_back(next);
    }
    const int64_t window = random(150);
    const FetchPlan plan = plan_fetches(order, bytes, window);
    ASSERT_EQ(plan.steps.size(), order.size());
    std::set<int> here;
    const auto release_weights = [&](const std::vector<int>& which) {
      for (int chunk : which) EXPECT_EQ(here.erase(chunk), 1);
    };
    int used_before = -1;
    for (const FetchStep& step : plan.steps) {
      // No chunk is released between its fetch and its use.
      for (int chunk : step.release) EXPECT_EQ(chunk, used_before);
      used_before = step.chunk;
      release_weights(step.release);
      for (int chunk : step.fetch) EXPECT_TRUE(here.insert(chunk).second);
      EXPECT_TRUE(here.contains(step.chunk));
      int64_t together = 0;
      for (int chunk : here) together += bytes[chunk];
      EXPECT_TRUE(together <= window || here.size() <= 2);
    }
    release_weights(plan.release_at_end);
    EXPECT_THAT(here, IsEmpty());
  }
}

TEST(OrderOfUse, ComparesAndTravelsAsText) {
  const OrderOfUse order{{0, 1, 2}, {2, 1}};
  EXPECT_EQ(OrderOfUse::from_text(order.to_text()), order);
  EXPECT_TRUE(is_subsequence({0, 2}, order.forward));
  EXPECT_TRUE(is_subsequence({}, order.forward));
  EXPECT_FALSE(is_subsequence({2, 0}, order.forward));
}

}  // namespace
}  // namespace colossal::memory
