#include "colossal/data/mixture.h"

#include <numeric>

#include "colossal/base/error.h"
#include "colossal/data/token_dataset.h"

namespace colossal::data {

Mixture::Mixture(std::vector<TokenDataset> sources, std::vector<double> weights, uint64_t seed)
    : sources_(std::move(sources)),
      weights_(sources_.size() == 1 ? std::vector{1.0} : std::move(weights)),
      interleaving_(weights_, seed) {
  COLOSSAL_CHECK(sources_.size() == weights_.size(), "{} sources, {} weights", sources_.size(),
                 weights_.size());
  for (const TokenDataset& source : sources_) {
    orders_.emplace_back(source.num_samples(), seed, std::ssize(orders_));
  }
}

double Mixture::share(size_t source) const {
  return weights_[source] / std::accumulate(weights_.begin(), weights_.end(), 0.0);
}

Batch Mixture::read(const Range& positions) const {
  std::vector<int64_t> numbers(positions.size());
  std::iota(numbers.begin(), numbers.end(), positions.begin);
  Batch batch = sources_.front().make_batch(numbers);
  for (int64_t row = 0; row < std::ssize(numbers); ++row) {
    const auto [source, index] = interleaving_.at(numbers[row]);
    sources_[source].read_row(orders_[source].sample_at(index), row, batch);
  }
  return batch;
}

}  // namespace colossal::data
