// The samples that a run trains on: one source, or several in given proportions.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/data/interleaving.h"
#include "colossal/data/sampler.h"

namespace colossal::data {

// Every source has its own order of samples and begins its own epochs, so that a small one with a
// large weight is read often. A copy is a handle to the same tokens.
class Mixture {
 public:
  explicit Mixture(TokenDataset source, uint64_t seed) : Mixture({std::move(source)}, {}, seed) {}
  // `sources` may differ only in their corpora. `weights` has one for each; none if there is one
  // source.
  Mixture(std::vector<TokenDataset> sources, std::vector<double> weights, uint64_t seed);

  std::span<const TokenDataset> sources() const { return sources_; }
  double share(size_t source) const;  // of all samples

  // Row r: what the run reads at position positions.begin + r, which is also the row's number.
  Batch read(const Range& positions) const;

 private:
  std::vector<TokenDataset> sources_;
  std::vector<double> weights_;
  std::vector<SampleOrder> orders_;
  Interleaving interleaving_;
};

}  // namespace colossal::data
