// Says which of several sources each position of a run reads. It is a function of the seed and the
// position alone: the same at every number of ranks, and a resumed run needs only its step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace colossal::data {

// Sources take turns as evenly as their weights let them: among the first n positions, for any n, a
// source of k has n times its share of the weights, give or take 1 + log2(k).
class Interleaving {
 public:
  // weights: of each source, above 0; only their ratios count, to 1 part in 2^32.
  Interleaving(std::span<const double> weights, uint64_t seed);

  struct Place {
    int64_t source;
    int64_t index;  // how many earlier positions read the same source
  };
  Place at(int64_t position) const;

 private:
  // Sources are the leaves of a binary tree. A position that reaches a node goes left if
  // floor(share * position) rises there (a Beatty sequence).
  struct Node {
    int64_t source = -1;  // of a leaf
    uint32_t left = 0, right = 0;
    uint64_t share = 0;  // of the left child, of 2^32
    uint64_t phase = 0;  // where the count begins, below 2^32
    int64_t count_left(int64_t positions) const;
  };
  uint32_t add_nodes(std::span<const double> weights, int64_t first_source, uint64_t seed);

  std::vector<Node> nodes_;
  uint32_t root_;
};

}  // namespace colossal::data
