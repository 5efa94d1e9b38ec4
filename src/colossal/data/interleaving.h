// Decides from which of several sources (corpora with weights) each sample of a run is read. A
// position is the number of a sample in the run's order of samples, from 0. The source depends only
// on the weights, the seed and the position; it is thus the same for any number of ranks, and a run
// can resume from its step number alone. Used by Mixture (mixture.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace colossal::data {

// Interleaves k sources evenly. Let w be the weight of a source divided by the sum of all weights.
// For any n, the number of positions among the first n that read this source differs from n * w by
// at most 1 + log2(k). Immutable and thread-safe.
class Interleaving {
 public:
  // weights: one per source, at least one, all > 0. Only their ratios matter, with a precision of
  // 2^-32. seed: selects one of many interleavings with these weights.
  Interleaving(std::span<const double> weights, uint64_t seed);

  struct Place {
    int64_t source;  // index in the constructor's `weights`
    int64_t index;   // number of earlier positions that read the same source
  };
  // Returns the source that a position reads, and how many earlier positions read that source.
  Place at(int64_t position) const;

 private:
  // A node of a binary tree whose leaves are the sources. A position descends from the root to a
  // leaf. The p-th position that reaches an inner node goes to the left child if floor((p + 1) *
  // share + phase) > floor(p * share + phase) (a Beatty sequence), else to the right child; p
  // counts from 0.
  struct Node {
    int64_t source = -1;           // leaves only; -1: inner node
    uint32_t left = 0, right = 0;  // indices of the children in nodes_
    uint64_t share = 0;            // of the left child in the node's weight, in units of 2^-32
    uint64_t phase = 0;            // random offset of the sequence, in units of 2^-32
    // Returns how many of the first `positions` positions that reach this node go left.
    int64_t count_left(int64_t positions) const;
  };
  // Adds the tree of some sources and returns the index of its root in nodes_. weights: of these
  // sources. first_source: index of the first of them.
  uint32_t add_nodes(std::span<const double> weights, int64_t first_source, uint64_t seed);

  std::vector<Node> nodes_;
  uint32_t root_;
};

}  // namespace colossal::data
