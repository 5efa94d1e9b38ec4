// Describes where the elements of a parameter are in the tensors of checkpoint files. A tensor in a
// file may contain several parameters (fused queries, keys and values), or only a part of a
// parameter (the matrix of one expert). Below, "file tensor" means a tensor in a checkpoint file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

struct TensorSlice {
  std::string name;  // of the file tensor; if `stacked` is not empty, of the first file tensor
  // Only if num_rows > 0: the rows (indices of dim 0) of the file tensor that belong to the
  // parameter, in the order of the parameter's rows.
  std::vector<Range> rows{};
  int64_t num_rows = 0;  // number of rows of the file tensor; 0: all rows belong to the parameter

  // Only if num_columns > 0: the columns of the file tensor, a matrix, that belong to the
  // parameter.
  Range columns{};
  // Number of columns of the file tensor; 0: all columns belong to the parameter.
  int64_t num_columns = 0;

  // If each slice along dim 0 of the parameter is a file tensor of its own: the names of these file
  // tensors, in the order of the slices; num_rows and num_columns are then 0. Empty: one file
  // tensor has all elements of the parameter.
  std::vector<std::string> stacked{};

  // Number of dims of size 1 that the file tensor has after those of the parameter, as the weight
  // of a 1 x 1 convolution.
  int64_t num_ones = 0;

  // Returns whether the parameter has the elements of exactly one file tensor.
  bool is_whole() const { return num_rows == 0 && num_columns == 0 && stacked.empty(); }
  // Returns the names of all file tensors that contain the parameter.
  std::vector<std::string> names() const { return stacked.empty() ? std::vector{name} : stacked; }
  // Returns the shape of the file tensor, or of each stacked file tensor. parameter_shape: shape of
  // the global parameter.
  std::vector<int64_t> tensor_shape(std::vector<int64_t> parameter_shape) const;

  // Elements that are contiguous in the flattened parameter and in a flattened file tensor.
  struct Run {
    int64_t parameter_begin = 0;  // first element in the flattened parameter
    int64_t tensor_begin = 0;     // first element in the flattened file tensor
    int64_t count = 0;            // number of elements
    size_t tensor = 0;            // index of the file tensor in names()
  };
  // Divides the elements `elements` of the flattened global parameter into runs, and calls
  // visit(run) for each run, ascending by parameter_begin. parameter_shape: shape of the global
  // parameter.
  void for_each_run(const std::vector<int64_t>& parameter_shape, Range elements,
                    const std::function<void(const Run&)>& visit) const;

 private:
  // Calls visit() for the parts of `run` that are contiguous in a file tensor with more columns
  // than the parameter. row_size: number of elements of a row of the parameter.
  void visit_rows(const Run& run, int64_t row_size,
                  const std::function<void(const Run&)>& visit) const;
};

}  // namespace colossal
