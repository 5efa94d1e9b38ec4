#include "colossal/layout/partition.h"

#include <algorithm>

#include "colossal/base/error.h"

namespace colossal {

Partition::Partition(int64_t total, int parts, int64_t unit)
    : total_(total), parts_(parts), unit_(unit) {
  COLOSSAL_CHECK(total >= 0 && parts > 0 && unit > 0, "total {} parts {} unit {}", total, parts,
                 unit);
  const int64_t units = (total + unit - 1) / unit;
  fewest_units_ = units / parts;
  larger_parts_ = static_cast<int>(units % parts);
}

int64_t Partition::begin(int part) const {
  const int64_t units_before = fewest_units_ * part + std::min(part, larger_parts_);
  return std::min(total_, units_before * unit_);
}

std::vector<int64_t> Partition::counts() const {
  std::vector<int64_t> counts(parts_, fewest_units_ * unit_);
  std::fill_n(counts.begin(), larger_parts_, (fewest_units_ + 1) * unit_);
  // the last part that has units: its last unit may be incomplete
  const int last = fewest_units_ > 0 ? parts_ - 1 : larger_parts_ - 1;
  if (last >= 0) counts[last] = range(last).size();
  return counts;
}

int Partition::owner(int64_t element) const {
  COLOSSAL_CHECK(element >= 0 && element < total_, "element {} of {}", element, total_);
  const int64_t number = element / unit_, in_larger = larger_parts_ * (fewest_units_ + 1);
  if (number < in_larger) return static_cast<int>(number / (fewest_units_ + 1));
  return static_cast<int>(larger_parts_ + (number - in_larger) / fewest_units_);
}

}  // namespace colossal
