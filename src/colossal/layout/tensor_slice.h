// Location of a parameter in checkpoint files. A file's tensor may hold several parameters (fused
// queries, keys and values) or a part of one (the matrix of one expert).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

struct TensorSlice {
  std::string name;  // of the tensor in the file; if stacked: of the first tensor
  // The rows of the file's tensor (indices of its first dim) that belong to the parameter, in the
  // parameter's order. Empty: the parameter has all rows.
  std::vector<Range> rows{};
  int64_t num_rows = 0;  // of the file's tensor; 0: the parameter has all rows

  // For matrices of several parameters that are concatenated along columns: the columns that belong
  // to the parameter, and the number of columns of the file's tensor. 0: the parameter has all
  // columns.
  Range columns{};
  int64_t num_columns = 0;

  // Names of tensors that hold one index of the parameter's first dim each, in this order, without
  // that dim. Empty: one tensor holds the parameter.
  std::vector<std::string> stacked{};

  bool is_whole() const { return num_rows == 0 && num_columns == 0 && stacked.empty(); }
  std::vector<std::string> names() const { return stacked.empty() ? std::vector{name} : stacked; }
  // Returns the shape of the file's tensor (if stacked: of each tensor) for a parameter of this
  // shape.
  std::vector<int64_t> tensor_shape(std::vector<int64_t> parameter_shape) const;

  // A run of elements: where it begins in the flattened parameter and in the flattened tensor of
  // the file.
  struct Run {
    int64_t parameter_begin = 0;
    int64_t tensor_begin = 0;
    int64_t count = 0;
    size_t tensor = 0;  // index into names()
  };
  // Calls visit(run) for the runs that cover `elements` of the flattened parameter, in the
  // parameter's order.
  void for_each_run(const std::vector<int64_t>& parameter_shape, Range elements,
                    const std::function<void(const Run&)>& visit) const;

 private:
  void visit_rows(const Run& run, int64_t row_size,
                  const std::function<void(const Run&)>& visit) const;
};

}  // namespace colossal
