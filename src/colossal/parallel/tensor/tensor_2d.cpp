#include "colossal/parallel/tensor/tensor_2d.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "colossal/nn/layer_scope.h"
#include "colossal/ops/deferred_gradients.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/product/fused_linear.h"
#include "colossal/parallel/tensor/panel_product.h"
#include "colossal/parallel/tensor/panels.h"

namespace colossal::parallel {
namespace {

using nn::ParameterHandle;
using nn::StepContext;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Square {
  const comm::Group& row;
  const comm::Group& column;
  bool in_out;
  std::vector<int64_t> in_sizes;  // number of inputs in each of the q parts
  PackedPanels packed;            // layouts of the blocks in this column; empty: not packed

  // Broadcasts X_i0, X_i1, ... along this row; weights() broadcasts A_0j, A_1j, ... along this
  // column.
  Panels activations(const at::Tensor& x) const {
    std::vector<std::vector<int64_t>> shapes;
    for (const int64_t in : in_sizes) shapes.push_back({x.size(0), in});
    return {x, shapes, row};
  }
  Panels weights(const std::vector<at::Tensor>& here, const ConcatenatedWeights& sizes) const {
    std::vector<std::vector<int64_t>> shapes;
    for (size_t part = 0; part < in_sizes.size(); ++part) {
      shapes.push_back(
          {packed.empty() ? in_sizes[part] * sizes.out_features() : packed.bytes(part)});
    }
    return {sizes.concatenate(here), shapes, column};
  }
  ConcatenatedWeights sizes_of(const std::vector<at::Tensor>& weights) const {
    if (packed.empty()) return ConcatenatedWeights::of(weights, in_out);
    ConcatenatedWeights sizes;  // unpacked weights are [out, in]
    for (const auto& layout : packed.layouts.front()) sizes.out_sizes.push_back(layout->rows());
    return sizes;
  }
  // Splits a panel that has arrived into its weights; dequantizes packed weights to `type`.
  std::vector<at::Tensor> numbers(const at::Tensor& panel, size_t part,
                                  const ConcatenatedWeights& sizes, at::ScalarType type) const {
    return packed.empty() ? sizes.split(panel, in_sizes[part]) : packed.unpack(panel, part, type);
  }
};

// Computes the gradients of the weights. Panel X_it gives a partial gradient of A_tj, which is
// summed over the column at the rank that holds A_tj.
class SummaWeightGradients {
 public:
  SummaWeightGradients(const Square& square, const at::Tensor& x, const at::Tensor& y_gradient,
                       const ConcatenatedWeights& sizes)
      : square_(square),
        y_gradient_(y_gradient),
        sizes_(sizes),
        made_(
            ops::FusedGradientRequest::all(sizes.out_sizes, /*with_biases=*/false, square.in_out)),
        activations_(square.activations(x)),
        sums_(square.column) {}

  void add_next_panel() {
    sums_.send(
        sizes_.concatenate(ops::fused_weight_gradients(y_gradient_, activations_.next(), made_)));
  }

  // Returns the gradients of the weights, then, if with_biases, of the biases.
  std::vector<at::Tensor> finish(bool with_biases) {
    const int64_t in_here = square_.in_sizes[square_.column.rank()];
    std::vector<at::Tensor> gradients = sizes_.split(sums_.wait(), in_here);
    if (!with_biases) return gradients;
    std::ranges::move(bias_gradients(y_gradient_, sizes_), std::back_inserter(gradients));
    return gradients;
  }

 private:
  const Square& square_;
  at::Tensor y_gradient_;
  ConcatenatedWeights sizes_;
  ops::FusedGradientRequest made_;
  Panels activations_;
  PartialSums sums_;
};

struct SummaProduct : torch::autograd::Function<SummaProduct> {
  // Autograd finds the tensors in an at::TensorList, but not in a std::vector. `square` must
  // outlive the backward pass.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, at::TensorList weights,
                            at::TensorList biases, const Square* square) {
    const bool trained = ops::any_requires_grad(weights);
    variable_list saved{trained ? x : at::Tensor()};
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(saved);
    context->saved_data["trained"] = trained;
    context->saved_data["sizes"] = x.sizes();
    context->saved_data["biases"] = !biases.empty();
    context->saved_data["square"] = reinterpret_cast<int64_t>(square);
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const ConcatenatedWeights sizes = square->sizes_of(weights.vec());
    Panels activations = square->activations(x);
    Panels blocks = square->weights(weights.vec(), sizes);
    const at::Tensor y = at::zeros({x.size(0), sizes.out_features()},
                                   x.options().dtype(ops::compute_type(x.scalar_type())));
    for (size_t part = 0; part < square->in_sizes.size(); ++part) {
      const at::Tensor panel = activations.next();
      add_product(y, panel, square->numbers(blocks.next(), part, sizes, x.scalar_type()), sizes);
    }
    add_biases(y, biases.vec(), sizes);
    return y.to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor x = saved[0];
    const std::vector<at::Tensor> weights(saved.begin() + 1, saved.end());
    const auto& square = *reinterpret_cast<const Square*>(context->saved_data["square"].toInt());
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor y_gradient = gradients[0].contiguous();
    const ConcatenatedWeights sizes = square.sizes_of(weights);
    const bool biases = context->saved_data["biases"].toBool();
    // + 1: `square` has no gradient
    variable_list result(1 + weights.size() * (biases ? 2 : 1) + 1);
    std::optional<SummaWeightGradients> of_weights;
    ops::DeferredGradients* const later = ops::DeferredGradients::of_this_thread();
    const bool trained = context->saved_data["trained"].toBool();
    if (trained && later) {
      later->defer_gradients(1, [=, &square] {
        SummaWeightGradients defer_gradients(square, x, y_gradient, sizes);
        for (size_t panel = 0; panel < square.in_sizes.size(); ++panel)
          defer_gradients.add_next_panel();
        return defer_gradients.finish(biases);
      });
    } else if (trained) {
      of_weights.emplace(square, x, y_gradient, sizes);
    }
    if (!context->needs_input_grad(0) && !of_weights) return result;
    Panels blocks = square.weights(weights, sizes);
    PartialSums x_gradient(square.row);
    for (size_t part = 0; part < square.in_sizes.size(); ++part) {
      const std::vector<at::Tensor> block =
          sizes.oriented(square.numbers(blocks.next(), part, sizes, y_gradient.scalar_type()));
      x_gradient.send(ops::fused_input_gradient(y_gradient, block));
      if (of_weights) of_weights->add_next_panel();
    }
    result[0] = x_gradient.wait().view(context->saved_data["sizes"].toIntVector());
    if (of_weights) std::ranges::move(of_weights->finish(biases), result.begin() + 1);
    return result;
  }
};

class SummaLinear : public nn::Linear {
 public:
  SummaLinear(GridProduct product, const comm::Group& row, const comm::Group& column)
      : weights_(std::move(product.weights)),
        biases_(std::move(product.biases)),
        square_{row, column, product.order == nn::WeightOrder::in_out, std::move(product.in_sizes),
                std::move(product.packed)},
        adapter_(std::move(product.adapter)) {}

  at::Tensor forward(const at::Tensor& x, const StepContext& context) override {
    nn::LayerScope scope = nn::scope_of(weights_.front());
    const std::vector<at::Tensor> weights = nn::used(weights_, scope);
    const at::Tensor y = adapter_.apply(
        x, biases_, context, scope,
        [&](const at::Tensor& input, const std::vector<ParameterHandle>& biases) {
          const std::vector<at::Tensor> added = nn::used(biases, scope);
          return SummaProduct::apply(input.flatten(0, 1).contiguous(), at::TensorList(weights),
                                     at::TensorList(added), &square_);
        });
    return y.view({x.size(0), x.size(1), y.size(1)});
  }

 private:
  std::vector<ParameterHandle> weights_, biases_;
  Square square_;
  nn::LowRankAdapter adapter_;
};

TensorGrid grid_of_squares(const ParallelContext& context) {
  const Strategy& strategy = context.strategy();
  const int side = strategy.tensor_side();
  const int row = context.coordinate({"tp.row"}), column = context.coordinate({"tp.column"});
  const bool share_keys = strategy.key_value_replicas > 1;
  const auto with_keys = [&](ParallelContext::AxisNames names) {
    if (share_keys) names.push_back("tp.column.query");
    return &context.along(names);
  };
  const TensorGrid::Activation activation{
      .batch = BatchCut({{strategy.tp_depth, context.coordinate({"tp.depth"})}, {side, row}}),
      .features = context.along({"tp.column"}),
      .tokens = context.along({"tp.depth", "tp.row"}),
      .same_features = &context.along({"dp", "sp", "tp.depth", "tp.row"}),
      .same_keys = with_keys({"dp", "sp", "tp.depth", "tp.row"})};
  const TensorGrid::Block block{.inputs = row, .outputs = column};
  return {.between = activation,
          .within = activation,
          .first = block,
          .second = block,
          .same_weight = &context.along({"dp", "sp", "tp.depth"}),
          .same_key_weight = with_keys({"dp", "sp", "tp.depth"}),
          .embedding = context.along({"tp.row"}),
          .embedding_level = 1,
          .table_features = context.along({"tp.row"}),
          .mirror_tied_table = true};
}

}  // namespace

Tensor2dBuilder::Tensor2dBuilder(const ParallelContext& context, Shardings shardings,
                                 nn::MakeAttention make_attention, int64_t table_rows)
    : TensorGridBuilder(context, grid_of_squares(context), std::move(shardings),
                        std::move(make_attention), table_rows),
      row_(context.along({"tp.column"})),
      column_(context.along({"tp.row"})) {}

std::unique_ptr<nn::Linear> Tensor2dBuilder::make_product(GridProduct product) {
  return std::make_unique<SummaLinear>(std::move(product), row_, column_);
}

}  // namespace colossal::parallel
