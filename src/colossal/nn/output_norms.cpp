#include "colossal/nn/output_norms.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <vector>

#include "colossal/nn/held_runs.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/product/packed_weight.h"
#include "colossal/ops/product/quantized_matrix.h"

namespace colossal::nn {
namespace {

using Runs = std::vector<Range>;

// Returns a tensor with `size` indices along `dim`: the slices of `part` at the indices in `runs`,
// and zeros elsewhere.
at::Tensor spread(const at::Tensor& part, int64_t dim, const Runs& runs, int64_t size) {
  std::vector<int64_t> sizes = part.sizes().vec();
  sizes[static_cast<size_t>(dim)] = size;
  const at::Tensor whole = at::zeros(sizes, part.options());
  int64_t begin = 0;
  for (const Range& run : runs) {
    whole.narrow(dim, run.begin, run.size()).copy_(part.narrow(dim, begin, run.size()));
    begin += run.size();
  }
  return whole;
}

at::Tensor ones_like_dim(const at::Tensor& part, int64_t dim) {
  return at::ones({part.size(dim)}, part.options());
}

// Returns the sums of several tensors over ranks, with one call of `sum`.
std::vector<at::Tensor> summed(const std::vector<at::Tensor>& parts, const SumOverRanks& sum) {
  std::vector<at::Tensor> flat;
  std::vector<int64_t> sizes;
  for (const at::Tensor& part : parts) {
    flat.push_back(part.flatten());
    sizes.push_back(part.numel());
  }
  const at::Tensor all = at::cat(flat);
  sum(all);
  std::vector<at::Tensor> sums = all.split_with_sizes(sizes);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = sums[i].view(parts[i].sizes());
  return sums;
}

// Reads the rows (outputs) of a weight on this rank, dequantized if necessary.
class Rows {
 public:
  Rows(const ParameterHandle& weight, LayerScope& scope) : weight_(*weight) {
    in_out_ = weight->product.value_or(WeightOrder::out_in) == WeightOrder::in_out;
    if (!weight->quantized) tensor_ = weight.use(scope);
  }
  size_t output_dim() const { return in_out_ ? 1 : 0; }
  at::ScalarType type() const {
    const bool numbers = tensor_.defined() && tensor_.scalar_type() != at::kByte;
    return numbers ? ops::compute_type(tensor_.scalar_type()) : at::kFloat;
  }
  at::Tensor numbers(int64_t begin, int64_t end, at::ScalarType type) const {
    if (weight_.quantized) return ops::dequantized_rows(*weight_.quantized, begin, end, type);
    if (weight_.packed) return ops::unpacked_rows(tensor_, *weight_.packed, begin, end, type);
    return (in_out_ ? tensor_.t() : tensor_).narrow(0, begin, end - begin).to(type);
  }

 private:
  const Parameter& weight_;
  bool in_out_;
  at::Tensor tensor_;  // undefined if quantized
};

}  // namespace

at::Tensor output_norms(const AdaptedWeight& adapted, const SumOverRanks& sum, LayerScope& scope) {
  const at::NoGradGuard no_grad;
  const Rows rows(adapted.weight, scope);
  const size_t output_dim = rows.output_dim();
  const int64_t outputs = adapted.weight->shape[output_dim],
                inputs = adapted.weight->shape[1 - output_dim];
  at::Tensor down = adapted.down.use(scope), up = adapted.up.use(scope);
  const at::ScalarType type = down.scalar_type() == at::kDouble ? at::kDouble : rows.type();
  down = down.to(type);
  up = up.to(type);
  if (sum) {
    const Runs inputs_here = runs_here(*adapted.down, 1), outputs_here = runs_here(*adapted.up, 0);
    const std::vector<at::Tensor> sums =
        summed({spread(down, 1, inputs_here, inputs), spread(up, 0, outputs_here, outputs),
                spread(ones_like_dim(down, 1), 0, inputs_here, inputs),
                spread(ones_like_dim(up, 0), 0, outputs_here, outputs)},
               sum);
    // Several ranks may hold an element of A or B: each sum is divided by their number.
    const Runs rows_here = runs_here(*adapted.weight, output_dim),
               columns_here = runs_here(*adapted.weight, 1 - output_dim);
    down = select_runs(sums[0] / sums[2], 1, columns_here);
    up = select_runs(sums[1] / sums[3].unsqueeze(1), 0, rows_here);
  }
  const at::Tensor squares = at::zeros({up.size(0)}, up.options());
  constexpr int64_t kRowsAtOnce = 256;
  for (int64_t begin = 0; begin < up.size(0) && down.size(1) > 0; begin += kRowsAtOnce) {
    const int64_t end = std::min(begin + kRowsAtOnce, up.size(0));
    const at::Tensor numbers = at::addmm(rows.numbers(begin, end, type),
                                         up.narrow(0, begin, end - begin), down, 1, adapted.scale);
    squares.narrow(0, begin, end - begin).copy_(numbers.square().sum(1));
  }
  if (!sum) return squares.sqrt();
  const Runs rows_here = runs_here(*adapted.weight, output_dim);
  const std::vector<at::Tensor> sums =
      summed({spread(squares, 0, rows_here, outputs),
              spread(at::full_like(squares, down.size(1)), 0, rows_here, outputs)},
             sum);
  // Several ranks may hold the same columns of a row: sums[1] counts the columns in the square sum,
  // of which there should be `inputs`.
  const at::Tensor norms = (sums[0] * static_cast<double>(inputs) / sums[1]).sqrt();
  return select_runs(norms, 0, runs_here(*adapted.up, 0));
}

}  // namespace colossal::nn
