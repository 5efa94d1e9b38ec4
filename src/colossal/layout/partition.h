// Divides a sequence of elements into contiguous parts, as evenly as possible. Layouts, ZeRO and
// sequence parallelism use it to divide elements among ranks, so that they agree on the parts.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

// The division of `total` elements into `parts` parts. A part consists of whole units of `unit`
// elements; only the last unit may have fewer elements. The numbers of units of two parts differ by
// at most one, and parts with more units come first. If there are fewer units than parts, the last
// parts are empty.
class Partition {
 public:
  // Throws InternalError unless total >= 0, parts > 0 and unit > 0.
  Partition(int64_t total, int parts, int64_t unit = 1);

  // Returns the elements of part number `part`.
  Range range(int part) const { return {begin(part), begin(part + 1)}; }
  int parts() const { return parts_; }
  int64_t total() const { return total_; }
  // Returns the number of elements of each part. Computed at each call and not stored, to save
  // memory: a model has many Partitions, one per chunk, each over all ranks.
  std::vector<int64_t> counts() const;
  // Returns the index of the part that contains `element`. Throws InternalError if `element` is not
  // in [0, total).
  int owner(int64_t element) const;

 private:
  int64_t begin(int part) const;  // returns the first element of part number `part`

  int64_t total_;
  int parts_;
  int64_t unit_;
  int64_t fewest_units_ = 0;  // number of units of the smaller parts
  int larger_parts_ = 0;      // the first larger_parts_ parts have one more unit
};

}  // namespace colossal
