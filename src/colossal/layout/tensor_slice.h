// Where a parameter is in the tensors of checkpoint files. A file's tensor may hold several
// parameters (for example fused queries, keys and values) or a part of one (the matrix of one
// expert).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

struct TensorSlice {
  std::string name;  // of the file's tensor; if stacked, of the first of them
  // If num_rows is not 0: the rows of the file's tensor (indices of its first dim) that belong to
  // the parameter, in the parameter's order.
  std::vector<Range> rows{};
  int64_t num_rows = 0;  // of the file's tensor; 0: all its rows belong to the parameter

  // If num_columns is not 0: the columns of the file's tensor, a matrix, that belong to the
  // parameter. num_columns: number of columns of the file's tensor; 0: all its columns belong to
  // the parameter.
  Range columns{};
  int64_t num_columns = 0;

  // Names of the file's tensors if there is one for each index of the parameter's first dim, in
  // this order; these tensors lack that dim. Empty: one tensor holds the parameter.
  std::vector<std::string> stacked{};

  bool is_whole() const { return num_rows == 0 && num_columns == 0 && stacked.empty(); }
  std::vector<std::string> names() const { return stacked.empty() ? std::vector{name} : stacked; }
  // Returns the shape of the file's tensor (if stacked, of each of them). parameter_shape: of the
  // whole parameter.
  std::vector<int64_t> tensor_shape(std::vector<int64_t> parameter_shape) const;

  // A run of elements: where it begins in the flattened parameter and in the flattened tensor of
  // the file.
  struct Run {
    int64_t parameter_begin = 0;
    int64_t tensor_begin = 0;
    int64_t count = 0;
    size_t tensor = 0;  // index into names()
  };
  // Calls visit(run) for the runs that cover the range `elements` of the flattened parameter, in
  // ascending order. parameter_shape: of the whole parameter.
  void for_each_run(const std::vector<int64_t>& parameter_shape, Range elements,
                    const std::function<void(const Run&)>& visit) const;

 private:
  void visit_rows(const Run& run, int64_t row_size,
                  const std::function<void(const Run&)>& visit) const;
};

}  // namespace colossal
