// Decides which of several sources each position of a run reads. The choice depends only on the
// weights, the seed and the position. So it is the same for any number of ranks, and resuming a run
// needs only its step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace colossal::data {

// Interleaves k sources evenly: among the first n positions, for any n, the number of those that
// read a source differs from n times the source's share of the weights by at most 1 + log2(k).
// Immutable and thread-safe.
class Interleaving {
 public:
  // weights: one per source, > 0; only their ratios matter, with a precision of 2^-32.
  Interleaving(std::span<const double> weights, uint64_t seed);

  // What a position reads.
  struct Place {
    int64_t source;  // index in the constructor's `weights`
    int64_t index;   // number of earlier positions that read the same source
  };
  Place at(int64_t position) const;

 private:
  // Sources are the leaves of a binary tree. A position that reaches an inner node goes left if
  // floor(share * position) increases there (a Beatty sequence), else right.
  struct Node {
    int64_t source = -1;  // leaves only; -1: inner node
    uint32_t left = 0, right = 0;
    uint64_t share = 0;  // of the left child, in units of 2^-32
    uint64_t phase = 0;  // random offset of the sequence, below 2^32
    // Returns how many of the first `positions` positions go left.
    int64_t count_left(int64_t positions) const;
  };
  uint32_t add_nodes(std::span<const double> weights, int64_t first_source, uint64_t seed);

  std::vector<Node> nodes_;
  uint32_t root_;
};

}  // namespace colossal::data
