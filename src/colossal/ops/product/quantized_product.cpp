#include "colossal/ops/product/quantized_product.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

#include "colossal/base/error.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/kernels/int8_tiles.h"
#include "colossal/ops/kernels/quantized_rows.h"
#include "colossal/ops/parallel_for.h"
#include "colossal/ops/product/few_rows.h"
#include "colossal/ops/product/product.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Outputs of a weight that are dequantized at a time, if there are many rows.
constexpr int64_t kPanelOutputs = 256, kPanelOutputsOnGpus = 4096;
constexpr int64_t kNumbersOfThread = 1 << 15;  // minimum number of weights per thread

using Matrices = std::vector<const QuantizedMatrix*>;

int64_t padded(int64_t inputs) {
  return (inputs + kernels::kCodeBlock - 1) / kernels::kCodeBlock * kernels::kCodeBlock;
}

// Converts x from bf16 (contiguous) to fp32. Calling LibTorch's conversion takes longer than
// converting a row.
at::Tensor widened(const at::Tensor& x) {
  at::Tensor wide = at::empty(x.sizes(), at::kFloat);
  const auto* from = x.const_data_ptr<at::BFloat16>();
  std::copy(from, from + x.numel(), wide.mutable_data_ptr<float>());
  return wide;
}

// Returns x [rows, in] (contiguous) in `type`, padded with zeros to whole blocks of codes.
at::Tensor padded_rows(const at::Tensor& x, at::ScalarType type) {
  const int64_t size = padded(x.size(1));
  if (size == x.size(1)) {
    return x.scalar_type() == at::kBFloat16 && type == at::kFloat ? widened(x) : x.to(type);
  }
  at::Tensor wide = at::zeros({x.size(0), size}, x.options().dtype(type));
  wide.narrow(1, 0, x.size(1)).copy_(x);
  return wide;
}

// Calls visit(i, begin, end, column) from several threads: outputs [begin, end) of weight i, whose
// output 0 is column `column` of y. Columns are divided among threads in multiples of `step`.
template <typename Visit>
void for_outputs(const QuantizedWeights& given, int64_t step, const Visit& visit) {
  const int64_t inputs = std::max<int64_t>(1, given.weights.front()->inputs);
  const int64_t least = std::max<int64_t>(1, kNumbersOfThread / (inputs * step));
  const int64_t columns = given.out_features(), steps = (columns + step - 1) / step;
  parallel_for(0, steps, least, [&](int64_t first_step, int64_t last_step) {
    const int64_t begin = first_step * step;
    const int64_t end = std::min(columns, last_step * step);
    int64_t before = 0;
    for (size_t i = 0; i < given.weights.size(); ++i) {
      const int64_t outputs = given.weights[i]->outputs;
      const int64_t first = std::max(begin, before), last = std::min(end, before + outputs);
      if (first < last) visit(i, first - before, last - before, before);
      before += outputs;
    }
  });
}

template <typename Real>
kernels::MultiplyQuantized<Real> kernel_of(Quantization::Type type) {
  if constexpr (sizeof(Real) == 8) {
    return code_kernels(type).float64;
  } else {
    return code_kernels(type).float32;
  }
}

std::vector<at::Tensor> biases_in(const QuantizedWeights& given, at::ScalarType type) {
  std::vector<at::Tensor> biases;
  for (const at::Tensor& bias : given.biases) biases.push_back(bias.to(type).contiguous());
  return biases;
}

void* column_of(const at::Tensor& y, int64_t column) {
  return static_cast<char*>(y.mutable_data_ptr()) + column * y.element_size();
}

// Computes y [rows, out], of Real or bf16, from x [rows, padded in], of Real.
template <typename Real>
void multiply_few(const at::Tensor& y, const at::Tensor& x, const QuantizedWeights& given) {
  const std::vector<at::Tensor> biases = biases_in(given, x.scalar_type());
  for_outputs(given, 1, [&](size_t i, int64_t begin, int64_t end, int64_t column) {
    kernel_of<Real>(given.weights[i]->how.type)(
        {.rows = x.size(0),
         .x = x.const_data_ptr<Real>(),
         .weight = kernel_weight(*given.weights[i]),
         .bias = biases.empty() ? nullptr : biases[i].const_data_ptr<Real>(),
         .y = column_of(y, column),
         .y_is_bfloat16 = y.scalar_type() == at::kBFloat16,
         .y_stride = y.stride(0)},
        begin, end);
  });
}

// Rows rounded to int8: element = code * scale of its row. One tensor holds all three arrays: a
// step of generation rounds a row for each product, and allocating memory takes longer than
// rounding.
class Int8Rows {
 public:
  // x: [rows, in], contiguous.
  Int8Rows(const at::Tensor& x, const kernels::QuantizedWeight& weight)
      : rows_(x.size(0)),
        depth_(weight.blocks * kernels::kCodeBlock),
        memory_(at::empty({rows_ * (depth_ + 4 * (1 + weight.groups))}, at::kChar)) {
    const bool bfloat16 = x.scalar_type() == at::kBFloat16;
    const at::Tensor given = bfloat16 ? x : x.to(at::kFloat);
    auto* const codes = memory_.mutable_data_ptr<int8_t>();
    scales_ = reinterpret_cast<float*>(codes + rows_ * depth_);
    sums_ = reinterpret_cast<int32_t*>(scales_ + rows_);
    const kernels::Int8Rounding rounding{.inputs = x.size(1),
                                         .x = given.const_data_ptr(),
                                         .x_is_bfloat16 = bfloat16,
                                         .depth = depth_,
                                         .group_size = weight.group_blocks * kernels::kCodeBlock,
                                         .codes = codes,
                                         .scales = scales_,
                                         .sums = sums_};
    const int64_t least = std::max<int64_t>(1, kNumbersOfThread / std::max<int64_t>(1, depth_));
    parallel_for(0, rows_, least, [&](int64_t begin, int64_t end) {
      kernels::quantized_kernels().to_int8(rounding, begin, end);
    });
  }

  int64_t rows() const { return rows_; }
  int64_t depth() const { return depth_; }                                  // codes per row
  const int8_t* codes() const { return memory_.const_data_ptr<int8_t>(); }  // [rows, depth]
  const float* scales() const { return scales_; }                           // [rows]
  // [rows, groups]: the sums of the codes over each group of the weight
  const int32_t* sums() const { return sums_; }

 private:
  int64_t rows_, depth_;
  at::Tensor memory_;
  float* scales_;
  int32_t* sums_;
};

// Returns the kernels for tiles if a product of `rows` int8 rows uses them; otherwise null.
const kernels::Int8TileKernels* tiles_for(int64_t rows, const kernels::QuantizedWeight& weight) {
  constexpr int64_t kLeastRows = 4;  // for fewer rows, tiles are not faster
  const bool fits =
      weight.groups == 1 || weight.group_blocks * kernels::kCodeBlock % kernels::kInt8Depth == 0;
  return fits && rows >= kLeastRows ? kernels::int8_tile_kernels() : nullptr;
}

at::Tensor packed_for_tiles(const kernels::Int8TileKernels& tiles, const Int8Rows& rows) {
  at::Tensor packed = at::empty({kernels::packed_int8_bytes(rows.rows(), rows.depth())}, at::kChar);
  auto* to = packed.mutable_data_ptr<int8_t>();
  constexpr int64_t kBlocksOfThread = 4;
  const int64_t blocks = (rows.rows() + kernels::kInt8Rows - 1) / kernels::kInt8Rows;
  parallel_for(0, blocks, kBlocksOfThread, [&](int64_t begin, int64_t end) {
    tiles.pack(rows.codes(), rows.rows(), rows.depth(), begin, end, to);
  });
  return packed;
}

void multiply_int8(const at::Tensor& y, const at::Tensor& x, const QuantizedWeights& given) {
  // All weights have the same Quantization and inputs, so rounded rows are those for each of them.
  const kernels::QuantizedWeight first = kernel_weight(*given.weights.front());
  const Int8Rows rows(x, first);
  const std::vector<at::Tensor> biases = biases_in(given, at::kFloat);
  const auto product_with = [&](size_t i, int64_t column) {
    return kernels::Int8Product{
        .rows = x.size(0),
        .x = rows.codes(),
        .row_scales = rows.scales(),
        .sums = rows.sums(),
        .weight = kernel_weight(*given.weights[i]),
        .bias = biases.empty() ? nullptr : biases[i].const_data_ptr<float>(),
        .y = column_of(y, column),
        .y_is_bfloat16 = y.scalar_type() == at::kBFloat16,
        .y_stride = y.stride(0)};
  };
  if (const kernels::Int8TileKernels* const tiles = tiles_for(x.size(0), first)) {
    const at::Tensor packed = packed_for_tiles(*tiles, rows);
    const auto* codes = packed.const_data_ptr<int8_t>();
    for_outputs(given, kernels::kInt8Outputs,
                [&](size_t i, int64_t begin, int64_t end, int64_t column) {
                  tiles->multiply(product_with(i, column), codes, begin, end);
                });
  } else {
    for_outputs(given, 1, [&](size_t i, int64_t begin, int64_t end, int64_t column) {
      kernels::quantized_kernels().int8_int8(product_with(i, column), begin, end);
    });
  }
}

// Dequantizes the weights panel by panel, and calls visit(panel, columns, i, begin) for each panel.
// panel: outputs of weight i from `begin` on, [outputs of the panel, in]. columns: the columns of y
// for these outputs.
template <typename Visit>
void for_panels(const Matrices& weights, const at::Tensor& y, at::ScalarType type,
                const Visit& visit) {
  int64_t column = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const QuantizedMatrix& weight = *weights[i];
    const int64_t size = y.is_cuda() ? kPanelOutputsOnGpus : kPanelOutputs;
    for (int64_t begin = 0; begin < weight.outputs; begin += size) {
      const int64_t end = std::min(weight.outputs, begin + size);
      visit(dequantized_rows(weight, begin, end, type), y.narrow(1, column + begin, end - begin), i,
            begin);
    }
    column += weight.outputs;
  }
}

void multiply_many(const at::Tensor& y, const at::Tensor& x, const QuantizedWeights& given) {
  Matrices weights;
  for (const auto& weight : given.weights) weights.push_back(weight.get());
  for_panels(weights, y, x.scalar_type(),
             [&](const at::Tensor& panel, const at::Tensor& columns, size_t i, int64_t begin) {
               at::Tensor bias;
               if (!given.biases.empty()) {
                 bias = given.biases[i].narrow(0, begin, panel.size(0));
               }
               product_out(columns, x, panel.t(), bias);
             });
}

// Returns x with each row rounded to int8 with one scale.
at::Tensor rounded_to_int8(const at::Tensor& x) {
  constexpr double kMost = 127;
  const at::Tensor wide = x.to(compute_type(x.scalar_type()));
  const at::Tensor scales = wide.abs().amax(1, /*keepdim=*/true).div_(kMost);
  return (wide / scales.masked_fill(scales.eq(0), 1)).round_().mul_(scales).to(x.scalar_type());
}

// Computes y = x weight^T for few rows on a GPU, by default with the dequantized weight. codes,
// scales, zeros: members of a QuantizedMatrix. type: Quantization::Type. group: inputs per group.
void code_product_any(const at::Tensor& x, const at::Tensor& codes, const at::Tensor& scales,
                      const std::optional<at::Tensor>& zeros, int64_t type, int64_t group,
                      const at::Tensor& y) {
  const QuantizedMatrix matrix{.how = {.type = static_cast<Quantization::Type>(type),
                                       .group = group,
                                       .zero_point = zeros.has_value()},
                               .outputs = codes.size(0),
                               .inputs = x.size(1),
                               .codes = codes,
                               .scales = scales,
                               .zeros = zeros.value_or(at::Tensor())};
  product_out(y, x, dequantize(matrix, x.scalar_type()).t());
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def(
      "code_product(Tensor x, Tensor codes, Tensor scales, Tensor? zeros, int type, int group, "
      "Tensor(a!) y) -> ()");
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("code_product", code_product_any);
}

// Up to this number of rows, code_product() takes less time than dequantizing the weights.
constexpr int64_t kFewRowsOnGpus = 16;

at::Tensor product_on_gpu(const at::Tensor& given_x, const QuantizedWeights& given) {
  const bool in_int8 = given.weights.front()->how.activations == Activations::int8;
  const at::Tensor x = in_int8 ? rounded_to_int8(given_x) : given_x;
  at::Tensor y = at::empty({x.size(0), given.out_features()}, x.options());
  if (x.size(0) > kFewRowsOnGpus) {
    multiply_many(y, x, given);
    return y;
  }
  static const auto op = find_operator<decltype(code_product_any)>("colossal::code_product");
  int64_t column = 0;
  for (size_t i = 0; i < given.weights.size(); ++i) {
    const QuantizedMatrix& weight = *given.weights[i];
    const at::Tensor columns = y.narrow(1, column, weight.outputs);
    op.call(x, weight.codes, weight.scales,
            weight.zeros.defined() ? std::optional(weight.zeros) : std::nullopt,
            static_cast<int64_t>(weight.how.type), inputs_of_group(weight.inputs, weight.how),
            columns);
    if (!given.biases.empty()) columns.add_(given.biases[i]);
    column += weight.outputs;
  }
  return y;
}

// Returns x weight^T + bias, [rows, sum of out]. x: [rows, in].
at::Tensor product_of(const at::Tensor& x, const QuantizedWeights& given) {
  if (x.is_cuda()) return product_on_gpu(x, given);
  const int64_t outputs = given.out_features();
  const bool in_int8 = given.weights.front()->how.activations == Activations::int8;
  // Dequantizing a whole weight for a product in tiles pays off for more rows than reading a weight
  // in bf16 does.
  constexpr int64_t kMostBesideTiles = 24;
  if (!in_int8 && !are_few_rows(x, {}, kMostBesideTiles)) {
    at::Tensor y = at::empty({x.size(0), outputs}, x.options());
    multiply_many(y, x, given);
    return y;
  }
  const at::ScalarType wide = compute_type(x.scalar_type());
  const at::ScalarType made = x.scalar_type() == at::kBFloat16 ? at::kBFloat16
                              : in_int8                        ? at::kFloat
                                                               : wide;
  const at::Tensor y = at::empty({x.size(0), outputs}, x.options().dtype(made));
  if (in_int8) {
    multiply_int8(y, x, given);
  } else if (wide == at::kDouble) {
    multiply_few<double>(y, padded_rows(x, wide), given);
  } else {
    multiply_few<float>(y, padded_rows(x, wide), given);
  }
  return y.to(x.scalar_type());
}

// Returns the gradient of x, [rows, in]. y_gradient: [rows, sum of out].
at::Tensor input_gradient(const at::Tensor& y_gradient, const Matrices& weights) {
  // In bf16 a sum over panels would be rounded after each of them.
  const at::ScalarType type = y_gradient.scalar_type();
  const at::Tensor sum = at::zeros({y_gradient.size(0), weights.front()->inputs},
                                   y_gradient.options().dtype(compute_type(type)));
  for_panels(weights, y_gradient, type,
             [&](const at::Tensor& panel, const at::Tensor& columns, size_t, int64_t) {
               add_matrix_product(sum, columns, panel);
             });
  return sum.to(type);
}

at::Tensor shaped_product(const at::Tensor& x, const QuantizedWeights& given) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = given.out_features();
  return product_of(x.flatten(0, -2).contiguous(), given).view(sizes);
}

// Returns the addresses of the weights as integers, which an autograd node can save.
std::vector<int64_t> given_as_numbers(const QuantizedWeights& given) {
  std::vector<int64_t> numbers;
  for (const auto& weight : given.weights) {
    numbers.push_back(reinterpret_cast<int64_t>(weight.get()));
  }
  return numbers;
}

Matrices weights_of_numbers(const std::vector<int64_t>& numbers) {
  Matrices weights;
  for (const int64_t number : numbers) {
    weights.push_back(reinterpret_cast<const QuantizedMatrix*>(number));
  }
  return weights;
}

struct QuantizedLinear : torch::autograd::Function<QuantizedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const QuantizedWeights& given) {
    context->saved_data["weights"] = given_as_numbers(given);
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return shaped_product(x, given);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto weights = weights_of_numbers(context->saved_data["weights"].toIntVector());
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    std::vector<int64_t> sizes = gradients[0].sizes().vec();
    sizes.back() = weights.front()->inputs;
    return {input_gradient(gradients[0].flatten(0, -2), weights).view(sizes), at::Tensor()};
  }
};

}  // namespace

int64_t QuantizedWeights::out_features() const {
  int64_t features = 0;
  for (const auto& weight : weights) features += weight->outputs;
  return features;
}

at::Tensor quantized_linear(const at::Tensor& x, const QuantizedWeights& given) {
  COLOSSAL_CHECK(!given.weights.empty() &&
                     (given.biases.empty() || given.biases.size() == given.weights.size()),
                 "{} weights, {} biases", given.weights.size(), given.biases.size());
  if (!at::GradMode::is_enabled()) return shaped_product(x, given);
  return QuantizedLinear::apply(x, given);
}

at::Tensor quantized_grouped_product(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                     const std::vector<QuantizedStack>& stacks) {
  std::vector<at::Tensor> results;
  int64_t first = 0;
  for (size_t group = 0; group < counts.size(); ++group) {
    QuantizedWeights given;
    for (const QuantizedStack& stack : stacks) given.weights.push_back(stack.at(group));
    // If there are no rows at all, the last group gives a result of 0 rows.
    const bool is_last_chance = results.empty() && group + 1 == counts.size();
    if (counts[group] == 0 && !is_last_chance) continue;
    results.push_back(quantized_linear(rows.narrow(0, first, counts[group]), given));
    first += counts[group];
  }
  COLOSSAL_CHECK(first == rows.size(0) && !results.empty(), "{} of {} rows are in {} groups", first,
                 rows.size(0), counts.size());
  return results.size() == 1 ? results.front() : at::cat(results);
}

}  // namespace colossal::ops
