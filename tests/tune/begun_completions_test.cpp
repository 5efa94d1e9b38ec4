#include "colossal/tune/rollout/begun_completions.h"

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

// Continues completions: completion n ends after 1 + n % 13 tokens, if it may have that many.
// Returns the most passes.
int64_t go_on(const std::vector<BegunCompletions::Continuation>& continued, int64_t version) {
  int64_t passes = 0;
  for (const auto& [completion, max_new_tokens] : continued) {
    const int64_t length = 1 + completion->number % 13;
    const int64_t left = length - std::ssize(completion->completion.tokens);
    BegunCompletions::append(
        *completion, tokens(std::min(left, max_new_tokens), left <= max_new_tokens), version);
    passes = std::max(passes, max_new_tokens);
  }
  return passes;
}

void begin_until(BegunCompletions& begun, int64_t count, int64_t& next) {
  for (int64_t more = begun.missing(count); more > 0; --more) begun.begin({.number = next++});
}

class Staleness : public testing::TestWithParam<std::tuple<int64_t, int64_t, bool>> {};
TEST_P(Staleness, IsBoundedAndEachCompletionComesOnceInOrder) {
  const auto [staleness, updates, waits] = GetParam();
  BegunCompletions begun({.max_staleness = staleness,
                          .updates = updates,
                          .max_length = kMaxLength,
                          .waits_for_rewards = waits});
  int64_t next = 0, learned = 0, stalest = 0;
  for (int64_t version = 0; version < kGenerations; ++version) {
    begin_until(begun, kCount, next);
    const auto unfinished = begun.unfinished(kCount);
    // Only the first generation has completions that were not begun before.
    EXPECT_EQ(unfinished.empty(), version > 0 && staleness > 0);
    go_on(unfinished, version);
    for (const ScoredCompletion& each : begun.take(kCount)) {
      EXPECT_EQ(each.number, learned++);
      const int64_t length = std::min<int64_t>(1 + each.number % 13, kMaxLength);
      EXPECT_EQ(std::ssize(each.completion.tokens), length);
      EXPECT_EQ(each.completion.ended, 1 + each.number % 13 <= kMaxLength);
      EXPECT_EQ(each.completion.entropy, length);
      ASSERT_EQ(each.versions.size(), each.completion.tokens.size());
      EXPECT_TRUE(std::ranges::is_sorted(each.versions));
      stalest = std::max(stalest, version - each.versions.front());
      if (version > 0) {
        EXPECT_GE(version - each.versions.back(), std::min<int64_t>(staleness, 1));
      }
    }
    for (int64_t update = 0; staleness > 0 && update < updates; ++update) {
      begin_until(begun, staleness * kCount, next);
      const int64_t passes = go_on(begun.to_continue_during(update, kCount), version);
      // Completions that were begun at the start of the run had less time.
      const int64_t all = staleness * updates;
      const int64_t parts = waits && all > 1 ? all - 1 : all;
      if (version >= staleness) {
        EXPECT_LE(passes, (kMaxLength + parts - 1) / parts);
      }
      if (waits && updates > 1 && update == updates - 2) {  // the next update is for rewards
        EXPECT_TRUE(begun.unfinished(kCount).empty());
      }
    }
  }
  EXPECT_EQ(stalest, staleness);
  EXPECT_EQ(next - learned, staleness * kCount);
}
INSTANTIATE_TEST_SUITE_P(All, Staleness,
                         testing::Combine(testing::Values(0, 1, 2, 4), testing::Values(1, 3),
                                          testing::Bool()));

TEST(Staleness, GoesOnFromItsState) {
  const BegunCompletions::Options options{.max_staleness = 2, .max_length = kMaxLength};
  BegunCompletions begun(options);
  int64_t next = 0;
  begin_until(begun, 2 * kCount, next);
  go_on(begun.to_continue_during(0, kCount), 0);
  begun.unrewarded().front()->rewards = {0.5};
  BegunCompletions restored(options);
  restored.restore(nlohmann::json::parse(begun.state().dump()));
  EXPECT_EQ(restored.unrewarded().size(), begun.unrewarded().size());
  go_on(begun.unfinished(kCount), 1);
  go_on(restored.unfinished(kCount), 1);
  const auto expected = begun.take(kCount), found = restored.take(kCount);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].number, expected[i].number);
    EXPECT_EQ(found[i].completion, expected[i].completion);
    EXPECT_EQ(found[i].versions, expected[i].versions);
    EXPECT_EQ(found[i].rewards, expected[i].rewards);
  }
}

}  // namespace
}  // namespace colossal::tune
