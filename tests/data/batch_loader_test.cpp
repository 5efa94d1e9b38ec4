#include "colossal/data/batch_loader.h"

#include <ATen/ops/equal.h>
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <future>
#include <numeric>
#include <thread>

#include "tests/data/text_folder.h"

#include "colossal/data/text_batch.h"
#include "colossal/data/token_dataset.h"

namespace colossal::data {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

TokenDataset counting_dataset(int32_t num_samples) {
  std::vector<int32_t> tokens(num_samples * 4 + 1);
  std::iota(tokens.begin(), tokens.end(), 0);
  return {Corpus::from_tokens(tokens), 4};
}

// Returns the samples in the rows of the batches, in order.
std::vector<int64_t> samples_of(const std::vector<Batch>& batches) {
  std::vector<int64_t> samples;
  for (const Batch& batch : batches) {
    for (int64_t row = 0; row < batch.rows(); ++row) {
      samples.push_back(batch.at(kTokens).const_data_ptr<int64_t>()[row * 4] / 4);
    }
  }
  return samples;
}

std::vector<int64_t> ids_of(const std::vector<Batch>& batches) {
  std::vector<int64_t> ids;
  for (const Batch& batch : batches) {
    ids.insert(ids.end(), batch.sample_ids.begin(), batch.sample_ids.end());
  }
  return ids;
}

TEST(TrainingStep, ReadsTheSameSamplesAtEveryNumberOfReplicas) {
  const Mixture mixture(counting_dataset(10), 3);
  const auto serial = read_training_step(mixture, {.global_batch = 6}, 2);
  EXPECT_THAT(ids_of(serial), ElementsAre(12, 13, 14, 15, 16, 17));
  for (const int num_replicas : {2, 3, 6}) {
    std::vector<Batch> together;
    for (int replica = 0; replica < num_replicas; ++replica) {
      for (Batch& batch : read_training_step(mixture, {6, 2, num_replicas, replica}, 2)) {
        together.push_back(std::move(batch));
      }
    }
    EXPECT_EQ(samples_of(together), samples_of(serial));
    EXPECT_EQ(ids_of(together), ids_of(serial));
  }
}

TEST(EvaluationStep, ReadsAllSamplesInOrderTheLastBatchShort) {
  const TokenDataset dataset = counting_dataset(5);
  BatchShape shape{.global_batch = 4, .num_replicas = 2};
  EXPECT_THAT(samples_of(read_evaluation_step(dataset, shape, 0)), ElementsAre(0, 1));
  EXPECT_THAT(samples_of(read_evaluation_step(dataset, shape, 1)), ElementsAre(4));
  shape.replica = 1;
  EXPECT_THAT(samples_of(read_evaluation_step(dataset, shape, 0)), ElementsAre(2, 3));
  const auto last = read_evaluation_step(dataset, shape, 1);
  ASSERT_EQ(last.size(), 1u);  // an empty forward pass, because the other replica has one
  EXPECT_EQ(last.front().rows(), 0);
}

TEST(BatchLoader, GivesWhatReadingDirectlyGivesAndResumes) {
  const Mixture mixture(counting_dataset(10), 3);
  const BatchShape shape{6, 2, 2, 1};
  BatchLoader loader = make_training_loader(mixture, shape, 5, 9);
  for (int64_t step = 5; step < 9; ++step) {
    const auto loaded = loader.next();
    const auto direct = read_training_step(mixture, shape, step);
    ASSERT_EQ(loaded.size(), direct.size());
    for (size_t i = 0; i < direct.size(); ++i) {
      EXPECT_TRUE(at::equal(loaded[i].at(kTokens), direct[i].at(kTokens)));
      EXPECT_TRUE(at::equal(loaded[i].at(kLabels), direct[i].at(kLabels)));
      EXPECT_EQ(loaded[i].sample_ids, direct[i].sample_ids);
    }
  }
  EXPECT_THROW(loader.next(), InternalError);
}

TEST(BatchLoader, GivesEvaluationsToTheEnd) {
  BatchLoader loader = make_evaluation_loader(counting_dataset(5), {.global_batch = 2});
  EXPECT_THAT(samples_of(loader.next()), ElementsAre(0, 1));
  EXPECT_THAT(samples_of(loader.next()), ElementsAre(2, 3));
  EXPECT_THAT(samples_of(loader.next()), ElementsAre(4));
  EXPECT_THROW(loader.next(), InternalError);
}

// The second step is read without another call of next().
TEST(BatchLoader, ReadsTheNextStepWhileTheCallerWorks) {
  std::promise<void> second_read;
  BatchLoader loader(
      [&](int64_t step) {
        if (step == 1) second_read.set_value();
        return std::vector<Batch>();
      },
      0, 10);
  loader.next();
  EXPECT_EQ(second_read.get_future().wait_for(10s), std::future_status::ready);
}

TEST(BatchLoader, ReadsOnceAtATimeAndNotBeyondTheEnd) {
  std::vector<int64_t> steps;
  {
    BatchLoader loader(
        [&](int64_t step) {
          steps.push_back(step);
          return std::vector<Batch>();
        },
        2, 4);
    loader.next();
    loader.next();
  }
  EXPECT_THAT(steps, ElementsAre(2, 3));
}

TEST(BatchLoader, EndsCleanlyWithAReadUnderWay) {
  std::atomic<bool> done = false;
  {
    BatchLoader loader(
        [&](int64_t) {
          std::this_thread::sleep_for(20ms);
          done = true;
          return std::vector<Batch>();
        },
        0, 10);
  }
  EXPECT_TRUE(done);
}

TEST(BatchLoader, WhatReadingThrowsTravels) {
  BatchLoader loader(
      [](int64_t step) {
        if (step == 1) throw IoError("the disk is gone");
        return std::vector<Batch>(1);
      },
      0, 10);
  EXPECT_EQ(loader.next().size(), 1u);
  EXPECT_THAT(message_of<IoError>([&] { loader.next(); }), "the disk is gone");
  EXPECT_THROW(loader.next(), InternalError);
}

}  // namespace
}  // namespace colossal::data
