// Range: a half-open range of indices, such as the elements of a shard or the blocks of a stage.
#pragma once

#include <algorithm>
#include <cstdint>

namespace colossal {

// The indices from `begin` on, before `end`. Empty if begin >= end; size() is then 0 or negative.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
  bool operator==(const Range&) const = default;
};

// Returns the intersection. If it is empty, its begin and end are equal.
inline Range intersect(const Range& a, const Range& b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

}  // namespace colossal
