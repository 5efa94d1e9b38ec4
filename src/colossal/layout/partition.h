// Who owns which part of a line of elements. The one place with that arithmetic: algorithms ask it.
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

  Range range(int part) const { return {begins_[part], begins_[part + 1]}; }
  int parts() const { return static_cast<int>(begins_.size()) - 1; }
  int64_t total() const { return begins_.back(); }
  // Sizes of all parts, as collectives take them.
  const std::vector<int64_t>& counts() const { return counts_; }
  int owner(int64_t element) const;

 private:
  std::vector<int64_t> begins_;  // parts + 1 of them
  std::vector<int64_t> counts_;
};

}  // namespace colossal
