// Says who owns which part of a line of elements. Only this file has that arithmetic; algorithms
// ask it.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

// `total` elements cut into `parts` contiguous parts as evenly as they go, in whole units of `unit`
// elements (the last unit may be short): the first parts are the larger ones, the last may be
// empty.
class Partition {
 public:
  Partition(int64_t total, int parts, int64_t unit = 1);

  Range range(int part) const { return {begin(part), begin(part + 1)}; }
  int parts() const { return parts_; }
  int64_t total() const { return total_; }
  // Sizes of all parts, as collectives take them. Made anew: a chunk of each of a thousand layers
  // must not keep as many numbers as there are ranks.
  std::vector<int64_t> counts() const;
  int owner(int64_t element) const;

 private:
  int64_t begin(int part) const;

  int64_t total_;
  int parts_;
  int64_t unit_;
  int64_t fewest_units_ = 0;  // in each part
  int larger_parts_ = 0;      // the first larger_parts_ parts have one unit more
};

}  // namespace colossal
