#include "colossal/tune/begun_completions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace colossal::tune {
namespace {

constexpr int64_t kCount = 3, kMaxLength = 10, kGenerations = 7;

Completion tokens(int64_t count, bool ended) {
  return {.tokens = std::vector<int32_t>(count, 1),
          .log_probabilities = std::vector<double>(count, -1),
          .entropy = static_cast<double>(count),
          .ended = ended};
}

// Samples generation `version`; completion n has its end after 1 + n % 13 tokens, or none.
std::vector<ScoredCompletion> sample(BegunCompletions& begun, int64_t version, int64_t& next,
                                     int64_t& passes) {
  for (int64_t more = begun.missing(kCount); more > 0; --more) begun.begin({.number = next++});
  passes = 0;
  for (const auto& [completion, max_new_tokens] : begun.continuations(kCount)) {
    const int64_t length = 1 + completion->number % 13;
    const int64_t left = length - std::ssize(completion->completion.tokens);
    BegunCompletions::append(
        *completion, tokens(std::min(left, max_new_tokens), left <= max_new_tokens), version);
    passes = std::max(passes, max_new_tokens);
  }
  return begun.take(kCount);
}

class Staleness : public testing::TestWithParam<int64_t> {};
TEST_P(Staleness, IsBoundedAndEachCompletionComesOnceInOrder) {
  BegunCompletions begun(GetParam(), kMaxLength);
  int64_t next = 0, learned = 0, stalest = 0;
  for (int64_t version = 0; version < kGenerations; ++version) {
    int64_t passes = 0;
    for (const ScoredCompletion& each : sample(begun, version, next, passes)) {
      EXPECT_EQ(each.number, learned++);
      const int64_t length = std::min<int64_t>(1 + each.number % 13, kMaxLength);
      EXPECT_EQ(std::ssize(each.completion.tokens), length);
      EXPECT_EQ(each.completion.ended, 1 + each.number % 13 <= kMaxLength);
      EXPECT_EQ(each.completion.entropy, length);
      ASSERT_EQ(each.versions.size(), each.completion.tokens.size());
      EXPECT_TRUE(std::ranges::is_sorted(each.versions));
      stalest = std::max(stalest, version - each.versions.front());
    }
    // The first generation has nothing that was begun before.
    const int64_t share = (kMaxLength + GetParam()) / (GetParam() + 1);
    EXPECT_LE(passes, version == 0 ? kMaxLength : share);
  }
  EXPECT_EQ(stalest, GetParam());
  EXPECT_EQ(next - learned, GetParam() * kCount);
}
INSTANTIATE_TEST_SUITE_P(All, Staleness, testing::Values(0, 1, 2, 4));

TEST(Staleness, GoesOnFromItsState) {
  BegunCompletions begun(2, kMaxLength);
  int64_t next = 0, passes = 0;
  sample(begun, 0, next, passes);
  BegunCompletions restored(2, kMaxLength);
  restored.restore(nlohmann::json::parse(begun.state().dump()));
  int64_t next_restored = next;
  const auto expected = sample(begun, 1, next, passes);
  const auto found = sample(restored, 1, next_restored, passes);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].number, expected[i].number);
    EXPECT_EQ(found[i].completion, expected[i].completion);
    EXPECT_EQ(found[i].versions, expected[i].versions);
  }
}

}  // namespace
}  // namespace colossal::tune
