// Contiguous partition of a sequence of elements. Only this file computes this; algorithms query
// it.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

// `total` elements cut into `parts` contiguous parts, as evenly as possible, in whole units of
// `unit` elements (the last unit may be short). The first parts are the larger ones; the last parts
// may be empty. Throws InternalError unless total >= 0, parts > 0 and unit > 0.
class Partition {
 public:
  Partition(int64_t total, int parts, int64_t unit = 1);

  Range range(int part) const { return {begin(part), begin(part + 1)}; }
  int parts() const { return parts_; }
  int64_t total() const { return total_; }
  // Returns the sizes of all parts, as collectives expect them. Computed at each call, not stored:
  // the chunks of a thousand layers must not each keep one number per rank.
  std::vector<int64_t> counts() const;
  // Returns the part that contains the element. Throws InternalError if it is not in [0, total).
  int owner(int64_t element) const;

 private:
  int64_t begin(int part) const;

  int64_t total_;
  int parts_;
  int64_t unit_;
  int64_t fewest_units_ = 0;  // units in each part
  int larger_parts_ = 0;      // the first larger_parts_ parts have one more unit
};

}  // namespace colossal
