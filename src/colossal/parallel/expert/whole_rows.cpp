#include "colossal/parallel/expert/whole_rows.h"

#include <ATen/ops/cat.h>

#include <utility>
#include <vector>

#include "colossal/parallel/expert/row_exchange.h"

namespace colossal::parallel {
namespace {

// Exchanges single elements of a flat tensor instead of rows.
at::Tensor exchanged(const at::Tensor& numbers, RowCounts counts, const comm::Group& group) {
  return RowExchange(numbers.view({-1, 1}), std::move(counts), group).wait().view(-1);
}

}  // namespace

at::Tensor whole_rows(const at::Tensor& x, const Shares& rows, const Shares& columns) {
  const std::vector<int64_t> sizes = columns.times(rows.mine());
  const at::Tensor received =
      exchanged(x.reshape(-1), {rows.times(columns.mine()), sizes}, *rows.group);
  std::vector<at::Tensor> parts;
  int64_t begin = 0;
  for (size_t rank = 0; rank < sizes.size(); begin += sizes[rank++]) {
    parts.push_back(
        received.narrow(0, begin, sizes[rank]).view({rows.mine(), columns.sizes[rank]}));
  }
  return at::cat(parts, 1);
}

at::Tensor whole_columns(const at::Tensor& x, const Shares& rows, const Shares& columns) {
  std::vector<at::Tensor> parts;
  int64_t begin = 0;
  for (const int64_t size : columns.sizes) {
    parts.push_back(x.narrow(1, begin, size).reshape(-1));
    begin += size;
  }
  const at::Tensor received = exchanged(
      at::cat(parts), {columns.times(rows.mine()), rows.times(columns.mine())}, *rows.group);
  return received.view({rows.total(), columns.mine()});
}

}  // namespace colossal::parallel
