#include "colossal/data/sampler.h"

#include <algorithm>
#include <cmath>

#include "colossal/base/error.h"
#include "colossal/base/random.h"

namespace colossal::data {
namespace {

// Rounds of the Feistel network. A round changes each of the two halves once.
constexpr uint32_t kRounds = 8;

// A permutation of 0 .. left_size·right_size−1, the smallest nearly square rectangle that has at
// least `size` cells: a Feistel network over Z_a × Z_b (Black and Rogaway, Ciphers with Arbitrary
// Finite Domains, 2002).
class Feistel {
 public:
  Feistel(uint64_t size, RandomKey key)
      : left_size_(static_cast<uint64_t>(std::ceil(std::sqrt(static_cast<double>(size))))),
        right_size_((size + left_size_ - 1) / left_size_),
        key_(key) {}

  uint64_t operator()(uint64_t x) const {
    uint64_t left = x % left_size_;
    uint64_t right = x / left_size_;
    for (uint32_t round = 0; round < kRounds; ++round) {
      left = (left + random(2 * round, right)) % left_size_;
      right = (right + random(2 * round + 1, left)) % right_size_;
    }
    return right * left_size_ + left;
  }

 private:
  // Returns 63 random bits.
  uint64_t random(uint32_t round, uint64_t half) const {
    const RandomBlock block =
        philox(key_, {{round, static_cast<uint32_t>(half), static_cast<uint32_t>(half >> 32), 0}});
    return (uint64_t{block.word[0]} << 31) | (block.word[1] >> 1);
  }

  uint64_t left_size_;
  uint64_t right_size_;
  RandomKey key_;
};

// Divides a range into `count` pieces of at most `size`. The last ones may be empty.
std::vector<Range> cut(const Range& range, int64_t size, int64_t count) {
  std::vector<Range> pieces;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = std::min(range.begin + i * size, range.end);
    pieces.push_back({begin, std::min(begin + size, range.end)});
  }
  return pieces;
}

std::vector<Range> micro_batches(const BatchShape& shape, const Range& step_range) {
  const Partition shares(step_range.size(), shape.num_replicas);
  const int64_t largest = shares.range(0).size();
  const int64_t size = shape.micro_batch > 0 ? std::min(shape.micro_batch, largest) : largest;
  const Range share = shares.range(shape.replica);
  return cut({step_range.begin + share.begin, step_range.begin + share.end}, size,
             (largest + size - 1) / size);
}

}  // namespace

SampleOrder::SampleOrder(int64_t num_samples, uint64_t seed, int64_t source)
    : num_samples_(num_samples),
      seed_(seed),
      purpose_(source == 0 ? "data order" : fmt::format("data order of source {}", source)) {
  COLOSSAL_CHECK(num_samples > 0, "{} samples", num_samples);
}

int64_t SampleOrder::sample_at(int64_t position) const {
  const Feistel permute(num_samples_,
                        random_key(seed_, static_cast<uint64_t>(epoch_at(position)), purpose_));
  // Cycle walking: the rectangle has more cells than there are samples; repeats until it finds a
  // sample.
  uint64_t sample = position % num_samples_;
  do sample = permute(sample);
  while (sample >= static_cast<uint64_t>(num_samples_));
  return static_cast<int64_t>(sample);
}

std::vector<Range> training_micro_batches(const BatchShape& shape, int64_t step) {
  COLOSSAL_CHECK(shape.global_batch % shape.num_replicas == 0, "global batch {} replicas {}",
                 shape.global_batch, shape.num_replicas);
  const int64_t begin = step * shape.global_batch;
  return micro_batches(shape, {begin, begin + shape.global_batch});
}

int64_t num_evaluation_steps(const BatchShape& shape, int64_t num_samples) {
  return (num_samples + shape.global_batch - 1) / shape.global_batch;
}

std::vector<Range> evaluation_micro_batches(const BatchShape& shape, int64_t num_samples,
                                            int64_t step) {
  const int64_t begin = step * shape.global_batch;
  return micro_batches(shape, {begin, std::min(begin + shape.global_batch, num_samples)});
}

}  // namespace colossal::data
