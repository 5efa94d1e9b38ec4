#include "colossal/data/mixture.h"

#include <gmock/gmock.h>

#include <map>
#include <numeric>

#include "colossal/data/batch_loader.h"
#include "colossal/data/text_batch.h"
#include "colossal/data/token_dataset.h"

namespace colossal::data {
namespace {

using ::testing::ElementsAre;

// Returns a dataset with samples of 4 tokens, which begin with first, first + 4, ...
TokenDataset numbered_dataset(int32_t first, int32_t num_samples) {
  std::vector<int32_t> tokens(num_samples * 4 + 1);
  std::iota(tokens.begin(), tokens.end(), first);
  return {Corpus::from_tokens(tokens), 4};
}

std::vector<int64_t> first_tokens(const Batch& batch) {
  std::vector<int64_t> tokens;
  for (int64_t row = 0; row < batch.rows(); ++row) {
    tokens.push_back(batch.at(kTokens).const_data_ptr<int64_t>()[row * 4]);
  }
  return tokens;
}

Mixture mixture_of_two() {
  return {{numbered_dataset(0, 10), numbered_dataset(1000, 5)}, {3, 1}, 7};
}

TEST(Mixture, OfOneSourceIsItsOrder) {
  const TokenDataset dataset = numbered_dataset(0, 10);
  const Batch batch = Mixture(dataset, 3).read({5, 15});
  const SampleOrder order(10, 3);
  for (int64_t row = 0; row < 10; ++row) {
    EXPECT_EQ(first_tokens(batch)[row], order.sample_at(5 + row) * 4);
  }
  EXPECT_THAT(batch.sample_ids, ElementsAre(5, 6, 7, 8, 9, 10, 11, 12, 13, 14));
}

// 40 positions read 30 samples of the first source (three epochs) and 10 of the second (two
// epochs).
TEST(Mixture, ReadsEachSourceByItsShareAndEpochByEpoch) {
  const Mixture mixture = mixture_of_two();
  EXPECT_DOUBLE_EQ(mixture.share(0), 0.75);
  std::map<int64_t, int> times;
  for (const int64_t token : first_tokens(mixture.read({0, 40}))) ++times[token];
  EXPECT_EQ(times.size(), 15u);
  for (const auto& [token, count] : times) EXPECT_EQ(count, token < 1000 ? 3 : 2) << token;
}

TEST(Mixture, IsTheSameAtEveryNumberOfReplicasAndWhereverARunBegins) {
  const Mixture mixture = mixture_of_two();
  std::vector<int64_t> serial, parallel;
  for (int64_t step = 0; step < 6; ++step) {
    for (const Batch& batch : read_training_step(mixture, {.global_batch = 12}, step)) {
      for (const int64_t token : first_tokens(batch)) serial.push_back(token);
    }
  }
  for (int64_t step = 0; step < 6; ++step) {
    for (int replica = 0; replica < 3; ++replica) {
      // Reads as a run that resumes at this step.
      BatchLoader resumed = make_training_loader(mixture, {12, 3, 3, replica}, step, 6);
      for (const Batch& batch : resumed.next()) {
        for (const int64_t token : first_tokens(batch)) parallel.push_back(token);
      }
    }
  }
  EXPECT_EQ(parallel, serial);
}

TEST(Mixture, SourcesOfOneSizeHaveOrdersOfTheirOwn) {
  const Mixture mixture({numbered_dataset(0, 20), numbered_dataset(1000, 20)}, {1, 1}, 7);
  std::vector<int64_t> of_first, of_second;
  for (const int64_t token : first_tokens(mixture.read({0, 40}))) {
    (token < 1000 ? of_first : of_second).push_back(token % 1000);
  }
  EXPECT_NE(of_first, of_second);
  EXPECT_THAT(of_first, ::testing::UnorderedElementsAreArray(of_second));
}

}  // namespace
}  // namespace colossal::data
