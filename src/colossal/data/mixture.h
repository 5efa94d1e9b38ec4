// The training samples of a run: one source, or several in given proportions.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/data/interleaving.h"
#include "colossal/data/sampler.h"

namespace colossal::data {

// Each source has its own sample order and its own epochs, so a small source with a large weight is
// repeated. Immutable and thread-safe. Copies of a mixture share its tokens.
class Mixture {
 public:
  explicit Mixture(TokenDataset source, uint64_t seed) : Mixture({std::move(source)}, {}, seed) {}
  // sources: at least one; must agree in everything except their corpora. weights: one per source,
  // > 0; ignored if there is only one source.
  Mixture(std::vector<TokenDataset> sources, std::vector<double> weights, uint64_t seed);

  std::span<const TokenDataset> sources() const { return sources_; }
  double share(size_t source) const;  // fraction of the run's samples that are of this source

  // Reads the samples at `positions` of the run's sample order, one per row. A row's sample id is
  // its position in this order.
  Batch read(const Range& positions) const;

 private:
  std::vector<TokenDataset> sources_;
  std::vector<double> weights_;
  std::vector<SampleOrder> orders_;
  Interleaving interleaving_;
};

}  // namespace colossal::data
