#include "colossal/parallel/tensor/tensor_3d.h"

#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "colossal/nn/layer_scope.h"
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

struct Cube {
  const comm::Group& inputs;   // ranks among which the rows of X_ij are divided
  const comm::Group& outputs;  // ranks among which the rows of Y_il are divided
  const comm::Group& pieces;   // ranks among which the weight's block is divided
  bool in_out;
  int64_t in_size;                  // columns of X_ij
  std::vector<int64_t> block_rows;  // for each weight: stored rows of the whole block
  PackedPanels packed;              // layouts of all pieces of the block; empty: not packed

  // Gathers the whole blocks of weights from the pieces that the ranks hold. Blocks of packed
  // weights are [out, in].
  std::vector<at::Tensor> blocks(const std::vector<at::Tensor>& weights,
                                 at::ScalarType type) const {
    if (!packed.empty()) return unpacked_blocks(weights, type);
    std::vector<Pending> under_way;
    for (size_t index = 0; index < weights.size(); ++index) {
      under_way.push_back(
          start_gather_rows(weights[index], Shares::even(pieces, block_rows[index])));
    }
    std::vector<at::Tensor> blocks;
    for (Pending& block : under_way) blocks.push_back(block.wait());
    return blocks;
  }
  ConcatenatedWeights sizes_of(const std::vector<at::Tensor>& blocks) const {
    return ConcatenatedWeights::of(blocks, in_out && packed.empty());
  }

 private:
  // Gathers the packed bytes and dequantizes afterwards: fewer bytes travel.
  std::vector<at::Tensor> unpacked_blocks(const std::vector<at::Tensor>& weights,
                                          at::ScalarType type) const {
    Shares bytes{&pieces, {}};
    for (size_t piece = 0; piece < packed.layouts.size(); ++piece) {
      bytes.sizes.push_back(packed.bytes(piece));
    }
    const at::Tensor all = start_gather_rows(at::cat(weights).unsqueeze(1), bytes).wait().view(-1);
    std::vector<std::vector<at::Tensor>> of_weights(weights.size());
    int64_t begin = 0;
    for (size_t piece = 0; piece < packed.layouts.size(); ++piece) {
      const std::vector<at::Tensor> numbers =
          packed.unpack(all.narrow(0, begin, bytes.sizes[piece]), piece, type);
      for (size_t index = 0; index < numbers.size(); ++index) {
        of_weights[index].push_back(numbers[index]);
      }
      begin += bytes.sizes[piece];
    }
    std::vector<at::Tensor> blocks;
    // A piece has a part of the stored rows, which are inputs if the weight is stored [in, out].
    for (const auto& cut : of_weights) blocks.push_back(at::cat(cut, in_out ? 1 : 0));
    return blocks;
  }
};

// Returns the shape of each rank's panel, [its rows, columns].
std::vector<std::vector<int64_t>> row_shapes(const std::vector<int64_t>& rows, int64_t columns) {
  std::vector<std::vector<int64_t>> shapes;
  for (const int64_t count : rows) shapes.push_back({count, columns});
  return shapes;
}

struct CubeProduct : torch::autograd::Function<CubeProduct> {
  // Autograd finds the tensors in an at::TensorList, but not in a std::vector. rows: of X_ij at
  // each rank of `inputs`, and of Y_il at each rank of `outputs`. `cube` must outlive the backward
  // pass.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, at::TensorList weights,
                            at::TensorList biases, const std::vector<int64_t>& rows,
                            const Cube* cube) {
    const bool trained = ops::any_requires_grad(weights);
    variable_list saved{trained ? x : at::Tensor()};
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(saved);
    context->saved_data["trained"] = trained;
    context->saved_data["sizes"] = x.sizes();
    context->saved_data["biases"] = !biases.empty();
    context->saved_data["rows"] = rows;
    context->saved_data["cube"] = reinterpret_cast<int64_t>(cube);
    const size_t inputs = 1 + weights.size() + biases.size() + 2;  // + 2: `rows` and `cube`
    context->saved_data["inputs"] = static_cast<int64_t>(inputs);
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    Panels activations(x, row_shapes(rows, cube->in_size), cube->inputs);
    const std::vector<at::Tensor> blocks = cube->blocks(weights.vec(), x.scalar_type());
    const ConcatenatedWeights sizes = cube->sizes_of(blocks);
    PartialSums sums(cube->outputs);
    for (size_t rank = 0; rank < rows.size(); ++rank) {
      sums.send(ops::fused_product(activations.next(), {sizes.oriented(blocks), {}}));
    }
    const at::Tensor y = sums.wait();
    add_biases(y, biases.vec(), sizes);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const std::vector<int64_t> rows = context->saved_data["rows"].toIntVector();
    const auto& cube = *reinterpret_cast<const Cube*>(context->saved_data["cube"].toInt());
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const bool trained = context->saved_data["trained"].toBool();
    const auto inputs = static_cast<size_t>(context->saved_data["inputs"].toInt());
    if (!trained && !context->needs_input_grad(0)) return variable_list(inputs);
    const at::Tensor y_gradient = gradients[0].contiguous();
    Panels y_gradients(y_gradient, row_shapes(rows, y_gradient.size(1)), cube.outputs);
    std::optional<Panels> activations;
    if (trained) activations.emplace(x, row_shapes(rows, cube.in_size), cube.inputs);
    const std::vector<at::Tensor> blocks =
        cube.blocks({saved.begin() + 1, saved.end()}, y_gradient.scalar_type());
    const ConcatenatedWeights sizes = cube.sizes_of(blocks);
    PartialSums x_gradient(cube.inputs);
    std::vector<at::Tensor> block_gradients;
    for (const at::Tensor& block : trained ? blocks : std::vector<at::Tensor>()) {
      block_gradients.push_back(
          at::zeros(block.sizes(), block.options().dtype(ops::compute_type(x.scalar_type()))));
    }
    for (size_t rank = 0; rank < rows.size(); ++rank) {
      const at::Tensor panel = y_gradients.next();
      x_gradient.send(ops::fused_input_gradient(panel, sizes.oriented(blocks)));
      if (trained) add_weight_gradients(block_gradients, panel, activations->next(), sizes);
    }
    std::vector<Pending> weight_gradients;
    for (size_t index = 0; index < block_gradients.size(); ++index) {
      weight_gradients.push_back(
          start_reduce_scatter_rows(block_gradients[index].to(x.scalar_type()),
                                    Shares::even(cube.pieces, cube.block_rows[index])));
    }
    variable_list result{x_gradient.wait().view(context->saved_data["sizes"].toIntVector())};
    for (Pending& gradient : weight_gradients) result.push_back(gradient.wait());
    if (trained && context->saved_data["biases"].toBool()) {
      for (const at::Tensor& gradient : bias_gradients(y_gradient, sizes)) {
        result.push_back(gradient);
      }
    }
    result.resize(inputs);
    return result;
  }
};

class CubeLinear : public nn::Linear {
 public:
  CubeLinear(GridProduct product, Cube cube, const BatchCut& batch)
      : weights_(std::move(product.weights)),
        biases_(std::move(product.biases)),
        cube_(std::move(cube)),
        batch_(batch),
        adapter_(std::move(product.adapter)) {}

  at::Tensor forward(const at::Tensor& x, const StepContext& context) override {
    nn::LayerScope scope = nn::scope_of(weights_.front());
    const std::vector<at::Tensor> weights = nn::used(weights_, scope);
    // Both X_ij (over l) and Y_il (over j) divide part i of the batch into q equal parts.
    std::vector<int64_t> rows = batch_.counts(context.tokens().batch, 1);
    for (int64_t& count : rows) count *= context.tokens().sequence;
    const at::Tensor y = adapter_.apply(
        x, biases_, context, scope,
        [&](const at::Tensor& input, const std::vector<ParameterHandle>& biases) {
          const std::vector<at::Tensor> added = nn::used(biases, scope);
          return CubeProduct::apply(input.flatten(0, 1).contiguous(), at::TensorList(weights),
                                    at::TensorList(added), rows, &cube_);
        });
    return y.view({y.size(0) / context.tokens().sequence, context.tokens().sequence, y.size(1)});
  }

 private:
  std::vector<ParameterHandle> weights_, biases_;
  Cube cube_;
  const BatchCut& batch_;
  nn::LowRankAdapter adapter_;
};

TensorGrid grid_of_a_cube(const ParallelContext& context) {
  const Strategy& strategy = context.strategy();
  const int side = strategy.tensor_side();
  const int i = context.coordinate({"tp.i"}), j = context.coordinate({"tp.j"}),
            l = context.coordinate({"tp.l"});
  const auto with_keys = [&](ParallelContext::AxisNames names) {
    if (strategy.key_value_replicas > 1) names.push_back("tp.l.query");
    return &context.along(names);
  };
  const comm::Group* same_j = &context.along({"dp", "sp", "tp.i", "tp.l"});
  return {.between = {.batch = BatchCut({{side, i}, {side, l}}),
                      .features = context.along({"tp.j"}),
                      .tokens = context.along({"tp.i", "tp.l"}),
                      .same_features = same_j,
                      .same_keys = same_j},
          .within = {.batch = BatchCut({{side, i}, {side, j}}),
                     .features = context.along({"tp.l"}),
                     .tokens = context.along({"tp.i", "tp.j"}),
                     .same_features = &context.along({"dp", "sp", "tp.i", "tp.j"}),
                     .same_keys = with_keys({"dp", "sp", "tp.i", "tp.j"})},
          .first = {.inputs = j, .outputs = l, .pieces = side, .piece = i},
          .second = {.inputs = l, .outputs = j, .pieces = side, .piece = i},
          .same_weight = &context.data_group(),
          .same_key_weight = with_keys({"dp", "sp"}),
          .embedding = context.along({"tp.i", "tp.l"}),
          .embedding_level = 0,
          .table_pieces = &context.along({"tp.i"}),
          .table_features = context.along({"tp.j"}),
          .mirror_activation = true};
}

}  // namespace

Tensor3dBuilder::Tensor3dBuilder(const ParallelContext& context, Shardings shardings,
                                 nn::MakeAttention make_attention, int64_t table_rows)
    : TensorGridBuilder(context, grid_of_a_cube(context), std::move(shardings),
                        std::move(make_attention), table_rows),
      pieces_(context.along({"tp.i"})) {}

std::unique_ptr<nn::Linear> Tensor3dBuilder::make_product(GridProduct product) {
  const bool is_first = product.cut == LinearSharding::Cut::outputs;
  const TensorGrid::Activation &from = is_first ? grid().between : grid().within,
                               &to = is_first ? grid().within : grid().between;
  // The axis that divides the features on one side of a layer divides the sequences on the other.
  Cube cube{.inputs = to.features,
            .outputs = from.features,
            .pieces = pieces_,
            .in_out = product.order == nn::WeightOrder::in_out,
            .in_size = product.in_sizes[from.features.rank()],
            .block_rows = product.block_rows,
            .packed = product.packed};
  return std::make_unique<CubeLinear>(std::move(product), std::move(cube), to.batch);
}

}  // namespace colossal::parallel
