// Contiguous partition of a sequence of elements. Only this file computes partitions; all other
// code asks it.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

// `total` elements, cut into `parts` contiguous parts of whole units. A unit has `unit` elements;
// the last unit may have fewer. The numbers of units of two parts differ by at most one, and parts
// with more units come first; so the last parts may be empty. Throws InternalError unless total >=
// 0, parts > 0 and unit > 0.
class Partition {
 public:
  Partition(int64_t total, int parts, int64_t unit = 1);

  Range range(int part) const { return {begin(part), begin(part + 1)}; }
  int parts() const { return parts_; }
  int64_t total() const { return total_; }
  // Returns the sizes of all parts, as collectives expect them. They are computed at each call and
  // not stored, because every chunk of a model has a Partition, and each would store one number per
  // rank.
  std::vector<int64_t> counts() const;
  // Returns the part that contains the element. Throws InternalError if it is not in [0, total).
  int owner(int64_t element) const;

 private:
  int64_t begin(int part) const;

  int64_t total_;
  int parts_;
  int64_t unit_;
  int64_t fewest_units_ = 0;  // units that every part has
  int larger_parts_ = 0;      // the first larger_parts_ parts have one more unit
};

}  // namespace colossal
