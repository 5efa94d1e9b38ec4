#include "colossal/nn/token_grid.h"

#include <ATen/ops/arange.h>

namespace colossal::nn {

namespace {

std::vector<int64_t> lengths_of_rows(const TokenGrid& grid, Range rows) {
  std::vector<int64_t> lengths;
  int64_t begin = 0;
  for (const int64_t length : grid.document_lengths) {
    const int64_t row = begin / grid.documents.size(1);
    if (row >= rows.begin && row < rows.end) lengths.push_back(length);
    begin += length;
  }
  return lengths;
}

}  // namespace

TokenGrid TokenGrid::of_rows(Range rows) const {
  const auto narrowed = [&](const at::Tensor& of_all) {
    return of_all.defined() ? of_all.narrow(0, rows.begin, rows.size()) : of_all;
  };
  TokenGrid part = *this;
  part.batch = rows.size();
  part.lengths = narrowed(lengths);
  if (positions.defined() && positions.dim() == 2) part.positions = narrowed(positions);
  part.documents = narrowed(documents);
  part.document_lengths = lengths_of_rows(*this, rows);
  if (!prefix_lengths.empty()) {
    part.prefix_lengths.assign(prefix_lengths.begin() + rows.begin,
                               prefix_lengths.begin() + rows.end);
  }
  return part;
}

TokenGrid make_token_grid(int64_t batch, int64_t sequence, at::Device device, int64_t begin) {
  TokenGrid grid{.batch = batch, .sequence = sequence, .length = begin + sequence};
  grid.positions =
      at::arange(begin, begin + sequence, at::TensorOptions().dtype(at::kLong).device(device));
  return grid;
}

}  // namespace colossal::nn
