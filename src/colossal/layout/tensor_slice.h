// Says where a parameter lies in files. A tensor there may hold several parameters, such as
// queries, keys and values, or a part of one, such as one expert's matrix.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

struct TensorSlice {
  std::string name;  // of the tensor in the file; of a stack: of the first one
  // The rows of the tensor (indices of its first dim) that are the parameter's, in the parameter's
  // order. Empty: the parameter is the whole tensor.
  std::vector<Range> rows{};
  int64_t num_rows = 0;  // of the tensor; 0: the parameter is the whole tensor

  // Of a matrix whose rows hold those of several parameters side by side: the columns that are the
  // parameter's, and how many the tensor has. 0: all are the parameter's.
  Range columns{};
  int64_t num_columns = 0;

  // Names of tensors that hold, in this order, an index of the parameter's first dim each, and lack
  // that dim. Empty: one tensor holds the parameter.
  std::vector<std::string> stacked{};

  bool is_whole() const { return num_rows == 0 && num_columns == 0 && stacked.empty(); }
  std::vector<std::string> names() const { return stacked.empty() ? std::vector{name} : stacked; }
  // The shape of the tensor, or of each, from that of the parameter.
  std::vector<int64_t> tensor_shape(std::vector<int64_t> parameter_shape) const;

  // Elements of a flattened parameter and where they lie in the flattened tensor.
  struct Run {
    int64_t parameter_begin = 0;
    int64_t tensor_begin = 0;
    int64_t count = 0;
    size_t tensor = 0;  // of names()
  };
  // visit(run) for the runs of `elements` of the flattened parameter, ascending in the parameter.
  void for_each_run(const std::vector<int64_t>& parameter_shape, Range elements,
                    const std::function<void(const Run&)>& visit) const;

 private:
  void visit_rows(const Run& run, int64_t row_size,
                  const std::function<void(const Run&)>& visit) const;
};

}  // namespace colossal
