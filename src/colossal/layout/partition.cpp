#include "colossal/layout/partition.h"

#include <algorithm>

#include "colossal/base/error.h"

namespace colossal {

Partition::Partition(int64_t total, int parts, int64_t unit) {
  COLOSSAL_CHECK(total >= 0 && parts > 0 && unit > 0, "total {} parts {} unit {}", total, parts,
                 unit);
  const int64_t units = (total + unit - 1) / unit;
  for (int part = 0; part <= parts; ++part) {
    const int64_t before = units / parts * part + std::min<int64_t>(part, units % parts);
    begins_.push_back(std::min(total, before * unit));
  }
  for (int part = 0; part < parts; ++part) counts_.push_back(range(part).size());
}

int Partition::owner(int64_t element) const {
  COLOSSAL_CHECK(element >= 0 && element < total(), "element {} of {}", element, total());
  return static_cast<int>(std::upper_bound(begins_.begin(), begins_.end(), element) -
                          begins_.begin()) -
         1;
}

}  // namespace colossal
