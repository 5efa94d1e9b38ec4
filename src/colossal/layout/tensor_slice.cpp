#include "colossal/layout/tensor_slice.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace colossal {

std::vector<int64_t> TensorSlice::tensor_shape(std::vector<int64_t> parameter_shape) const {
  if (!stacked.empty()) {
    parameter_shape.erase(parameter_shape.begin());
  } else {
    if (num_rows > 0) parameter_shape.front() = num_rows;
    if (num_columns > 0) parameter_shape.back() = num_columns;
  }
  parameter_shape.insert(parameter_shape.end(), num_ones, 1);
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
  const bool all_rows = num_rows == 0 && stacked.empty();
  int64_t begin = 0;  // of the run in the flattened parameter
  for (const Range& run : all_rows ? std::vector<Range>{{0, parameter_shape.front()}} : rows) {
    const int64_t end = begin + run.size() * row_size;
    const Range common = intersect(elements, {begin, end});
    if (!common.empty()) {
      visit_rows({common.begin, run.begin * row_size + common.begin - begin, common.size()},
                 row_size, visit);
    }
    begin = end;
  }
}

// run: consecutive elements of rows that have the parameter's width; may begin and end within a
// row. If the stored rows are wider (num_columns > 0), calls visit for each row.
void TensorSlice::visit_rows(const Run& run, int64_t row_size,
                             const std::function<void(const Run&)>& visit) const {
  if (num_columns == 0) return visit(run);
  for (int64_t done = 0; done < run.count;) {
    const int64_t place = run.tensor_begin + done, column = place % row_size;
    const int64_t count = std::min(row_size - column, run.count - done);
    visit({run.parameter_begin + done, place / row_size * num_columns + columns.begin + column,
           count});
    done += count;
  }
}

}  // namespace colossal
