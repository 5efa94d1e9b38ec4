#include "colossal/memory/block_index.h"

#include <ATen/ops/tensor.h>

#include <algorithm>

namespace colossal::memory {
namespace {

// The indices on this rank along one dim of the global tensor.
std::vector<int64_t> indices_of(const std::vector<std::vector<Range>>& held, size_t dim,
                                int64_t size) {
  std::vector<int64_t> indices;
  const std::vector<Range> all{{0, size}};
  for (const Range& range : held.empty() ? all : held[dim]) {
    for (int64_t index = range.begin; index < range.end; ++index) indices.push_back(index);
  }
  return indices;
}

// Returns outer * size + inner for all pairs, those of one `outer` together.
std::vector<int64_t> combined(const std::vector<int64_t>& outer, int64_t size,
                              const std::vector<int64_t>& inner) {
  std::vector<int64_t> all;
  all.reserve(outer.size() * inner.size());
  for (const int64_t high : outer) {
    for (const int64_t low : inner) all.push_back(high * size + low);
  }
  return all;
}

}  // namespace

BlockIndex::BlockIndex(const std::vector<int64_t>& shape,
                       const std::vector<std::vector<Range>>& held, at::Device device)
    : matrices_{0} {
  const size_t dims = shape.size();
  for (size_t dim = 0; dim + 2 < dims; ++dim) {
    matrices_ = combined(matrices_, shape[dim], indices_of(held, dim, shape[dim]));
  }
  std::vector<int64_t> rows{0}, columns{0};
  const int64_t all_rows = dims >= 2 ? shape[dims - 2] : 1;
  const int64_t all_columns = dims >= 1 ? shape[dims - 1] : 1;
  if (dims >= 2) rows = indices_of(held, dims - 2, all_rows);
  if (dims >= 1) columns = indices_of(held, dims - 1, all_columns);
  rows_of_matrix_ = static_cast<int64_t>(rows.size());
  columns_ = static_cast<int64_t>(columns.size());
  const auto index = [&](const std::vector<int64_t>& values) {
    return at::tensor(values, at::kLong).to(device);
  };
  row_index_ = index(combined(matrices_, all_rows, rows));
  column_index_ = index(combined(matrices_, all_columns, columns));
}

std::vector<MatrixBlock> BlockIndex::blocks(Range elements) const {
  std::vector<MatrixBlock> blocks;
  for (int64_t begin = elements.begin; begin < elements.end;) {
    const int64_t row = begin / columns_, column = begin % columns_;
    const int64_t matrix = row / rows_of_matrix_;
    int64_t num_rows = 1, num_columns = std::min(columns_ - column, elements.end - begin);
    if (column == 0 && num_columns == columns_) {
      num_rows = std::min((elements.end - begin) / columns_, (matrix + 1) * rows_of_matrix_ - row);
    }
    const int64_t end = begin + num_rows * num_columns;
    blocks.push_back({{begin, end},
                      row_index_.narrow(0, row, num_rows),
                      column_index_.narrow(0, matrix * columns_ + column, num_columns)});
    begin = end;
  }
  return blocks;
}

Range BlockIndex::elements_of_matrix(int64_t matrix) const {
  const auto found = std::ranges::find(matrices_, matrix);
  if (found == matrices_.end()) return {};
  const int64_t numel = rows_of_matrix_ * columns_;
  const int64_t begin = (found - matrices_.begin()) * numel;
  return {begin, begin + numel};
}

}  // namespace colossal::memory
