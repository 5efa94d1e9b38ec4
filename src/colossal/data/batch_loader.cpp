#include "colossal/data/batch_loader.h"

#include <numeric>

#include "colossal/base/error.h"
#include "colossal/data/token_dataset.h"

namespace colossal::data {

std::vector<Batch> read_training_step(const Mixture& mixture, const BatchShape& shape,
                                      int64_t step) {
  std::vector<Batch> batches;
  for (const Range& positions : training_micro_batches(shape, step)) {
    batches.push_back(mixture.read(positions));
  }
  return batches;
}

std::vector<Batch> read_evaluation_step(const TokenDataset& dataset, const BatchShape& shape,
                                        int64_t step) {
  std::vector<Batch> batches;
  for (const Range& range : evaluation_micro_batches(shape, dataset.num_samples(), step)) {
    std::vector<int64_t> samples(range.size());
    std::iota(samples.begin(), samples.end(), range.begin);
    batches.push_back(dataset.read(samples, samples));
  }
  return batches;
}

BatchLoader::BatchLoader(ReadStep read_step, int64_t first_step, int64_t end_step)
    : read_step_(std::move(read_step)), step_(first_step), end_step_(end_step) {
  start();
}

void BatchLoader::start() {
  if (step_ < end_step_) pending_ = std::async(std::launch::async, read_step_, step_);
}

std::vector<Batch> BatchLoader::next() {
  COLOSSAL_CHECK(pending_.valid(), "step {} of steps that end at {}", step_, end_step_);
  std::vector<Batch> batches = pending_.get();
  ++step_;
  start();
  return batches;
}

namespace {

// Returns a function that reads a step's micro-batches with `read` and changes them.
BatchLoader::ReadStep changed(BatchLoader::ReadStep read, ChangeBatch change) {
  if (!change) return read;
  return [read = std::move(read), change = std::move(change)](int64_t step) {
    std::vector<Batch> batches = read(step);
    for (Batch& batch : batches) change(batch);
    return batches;
  };
}

}  // namespace

BatchLoader make_training_loader(Mixture mixture, BatchShape shape, int64_t first_step,
                                 int64_t end_step, ChangeBatch change) {
  const auto read = [=](int64_t step) { return read_training_step(mixture, shape, step); };
  return BatchLoader(changed(read, std::move(change)), first_step, end_step);
}

BatchLoader make_evaluation_loader(TokenDataset dataset, BatchShape shape, ChangeBatch change) {
  const auto read = [=](int64_t step) { return read_evaluation_step(dataset, shape, step); };
  return BatchLoader(changed(read, std::move(change)), 0,
                     num_evaluation_steps(shape, dataset.num_samples()));
}

}  // namespace colossal::data
