#include "colossal/layout/tensor_slice.h"

#include <functional>
#include <numeric>

namespace colossal {

std::vector<int64_t> TensorSlice::tensor_shape(std::vector<int64_t> parameter_shape) const {
  if (!stacked.empty()) {
    parameter_shape.erase(parameter_shape.begin());
  } else if (!is_whole()) {
    parameter_shape.front() = num_rows;
  }
  return parameter_shape;
}

void TensorSlice::for_each_run(const std::vector<int64_t>& parameter_shape, Range elements,
                               const std::function<void(const Run&)>& visit) const {
  if (is_whole()) {
    if (!elements.empty()) visit({elements.begin, elements.begin, elements.size()});
    return;
  }
  const int64_t row_size = std::accumulate(parameter_shape.begin() + 1, parameter_shape.end(),
                                           int64_t{1}, std::multiplies<>());
  for (size_t tensor = 0; tensor < stacked.size(); ++tensor) {
    const int64_t begin = static_cast<int64_t>(tensor) * row_size;
    const Range common = intersect(elements, {begin, begin + row_size});
    if (!common.empty()) visit({common.begin, common.begin - begin, common.size(), tensor});
  }
  int64_t begin = 0;  // of the rows in the flattened parameter
  for (const Range& run : rows) {
    const int64_t end = begin + run.size() * row_size;
    const Range common = intersect(elements, {begin, end});
    if (!common.empty()) {
      visit({common.begin, run.begin * row_size + common.begin - begin, common.size()});
    }
    begin = end;
  }
}

}  // namespace colossal
