// The training samples of a run: those of one corpus, or of several corpora (sources) in given
// proportions.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/data/interleaving.h"
#include "colossal/data/sampler.h"
#include "colossal/data/token_dataset.h"

namespace colossal::data {

// Mixes the samples of sources by their weights (interleaving.h). Each source is read in a random
// order of its own (SampleOrder, sampler.h), again and again, so a small source with a large weight
// is repeated. Immutable and thread-safe. Copies of a mixture share its tokens.
class Mixture {
 public:
  // A mixture of one source.
  explicit Mixture(TokenDataset source, uint64_t seed) : Mixture({std::move(source)}, {}, seed) {}
  // sources: at least one; they may differ only in their corpora. weights: one per source, all > 0;
  // ignored if there is only one source. seed: of the order of samples (data.seed). Throws
  // InternalError if there are several sources and not as many weights.
  Mixture(std::vector<TokenDataset> sources, std::vector<double> weights, uint64_t seed);

  std::span<const TokenDataset> sources() const { return sources_; }
  // Returns the fraction of the run's samples that come from the source with this index.
  double share(size_t source) const;

  // Returns a batch with the samples at these positions of the run's order of samples, one row per
  // position. Batch::sample_ids are the positions.
  Batch read(const Range& positions) const;

 private:
  std::vector<TokenDataset> sources_;
  std::vector<double> weights_;
  std::vector<SampleOrder> orders_;  // one per source
  Interleaving interleaving_;
};

}  // namespace colossal::data
