// Low-rank adapters of a linear layer with input x and weight W (E. Hu et al. 2021, "LoRA: Low-Rank
// Adaptation of Large Language Models"): y = x W^T + scale * dropout(x) A^T B^T. Every linear layer
// owns a LowRankAdapter. In a model without adapters, it adds only the terms of per-request
// adapters.
//
// A fused linear layer consists of several products x W^T whose outputs are concatenated. Each
// product may have an adapter of the model; several products may share A. In addition, the tokens
// of a step may have per-request adapters (StepServices::adapted_rows).
//
// DoRA (S. Liu et al. 2024, "DoRA: Weight-Decomposed Low-Rank Adaptation") adds magnitudes m. Let
// f(x) be x W^T + scale * x A^T B^T, with each output o multiplied by
// m_o / |W_o + scale * (B A)_o|, where W_o and (B A)_o are row o of the matrices. Without dropout,
// the layer computes y = f(x) + bias. With dropout, it computes y = f(d) + (x - d) W^T + bias,
// where d = dropout(x), as in peft. The backward pass treats |W_o + scale * (B A)_o| as a constant.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/layers.h"
#include "colossal/nn/output_norms.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

class LowRankAdapter {
 public:
  // One product of the layer, and its adapter in the model.
  struct Product {
    std::string name;            // full name: "blocks.3.query"
    ParameterHandle up;          // B [out_features, adapter's rank]; empty handle: no adapter
    size_t down = 0;             // index of the adapter's A in the constructor's `downs`
    int64_t out_features = 0;    // on this rank
    double scale = 1;            // of the adapter's term
    ParameterHandle magnitudes;  // [out_features]; empty handle: the adapter is not DoRA
    ParameterHandle weight;      // W; needed only with magnitudes
  };
  // Converts z = x A^T, [.., sum of the adapters' ranks], from the layout of the layer's input to
  // the layout of its output. If ranks divide the features of x, it also sums z over these ranks.
  // Null: z is used as it is.
  using Move = std::function<at::Tensor(const at::Tensor& z, const StepContext& context)>;
  // Returns the tokens of a forward pass that this rank has in an activation, as a range of indices
  // into the flattened tokens [batch * sequence].
  using Tokens = std::function<Range(const StepContext& context)>;
  // How the layout of the layer's output y differs from the layout of its input x.
  struct LayoutChange {
    Move move = nullptr;
    Tokens of_x = nullptr, of_y = nullptr;  // tokens of x and of y on this rank; null: all tokens

    // Returns the LayoutChange of layers whose output has the layout of the input.
    static LayoutChange here(const Tokens& tokens) { return {nullptr, tokens, tokens}; }
  };
  // Multiplies x by the weights of the layer's products, and adds the biases if `biases` is not
  // empty. Returns the outputs, [.., sum of Product::out_features], which the caller may overwrite.
  using Multiply =
      std::function<at::Tensor(const at::Tensor& x, const std::vector<ParameterHandle>& biases)>;

  // For a layer that cannot have adapters, neither the model's nor per request: apply() only calls
  // `multiply`.
  LowRankAdapter() = default;
  //   downs     the distinct A's of the model's adapters, each [adapter's rank, in_features on this
  //             rank]; empty if the model has no adapter for these products
  //   products  the products of the layer, in the order of their outputs
  //   dropout   applied to the input of the model's adapters; null: none
  //   way       how the layout of the layer's output differs from that of its input
  //   sum       sums a tensor over the ranks of tp, which divide the weights; null if tp is 1. Used
  //             only with magnitudes: output_norms() computes |W_o + scale * (B A)_o| with it
  LowRankAdapter(std::vector<ParameterHandle> downs, std::vector<Product> products,
                 std::unique_ptr<Dropout> dropout, LayoutChange way, SumOverRanks sum)
      : downs_(std::move(downs)),
        products_(std::move(products)),
        dropout_(std::move(dropout)),
        way_(std::move(way)),
        sum_(std::move(sum)) {}

  // Returns the layer's output for x: the products, which `multiply` computes, with biases and with
  // the terms of all adapters. The model's adapters are left out if context.adapted is false.
  // biases: one per product, or empty. Parameters that are used stay on the device until `scope`
  // ends. Not thread-safe.
  at::Tensor apply(const at::Tensor& x, const std::vector<ParameterHandle>& biases,
                   const StepContext& context, LayerScope& scope, const Multiply& multiply) const;

 private:
  bool has_magnitudes() const;
  // Returns y plus the terms of the model's adapters, for adapters without magnitudes. May
  // overwrite y. x: before dropout.
  at::Tensor add_own(const at::Tensor& y, const at::Tensor& x, const StepContext& context,
                     LayerScope& scope) const;
  // Returns the products of x with the model's adapters, magnitudes and the biases.
  at::Tensor scaled(const at::Tensor& x, const std::vector<ParameterHandle>& biases,
                    const StepContext& context, LayerScope& scope, const Multiply& multiply) const;
  // Returns y plus the terms of the model's adapters. May overwrite y. x: after dropout.
  at::Tensor add_dropped(const at::Tensor& y, const at::Tensor& x, const StepContext& context,
                         LayerScope& scope) const;
  // Returns the DoRA factor m_o / norm_o of each output o, [sum of out_features on this rank]; 1
  // for outputs of products without magnitudes.
  at::Tensor factors(const StepContext& context, LayerScope& scope) const;
  // The parts of a per-request adapter that belong to the products of this layer.
  struct RequestAdapter {
    std::vector<at::Tensor> downs;  // distinct A's
    struct Up {
      const AdapterWeights::Product* product = nullptr;  // null: the product has no adapter
      size_t down = 0;                                   // index of its A in `downs`
    };
    std::vector<Up> ups;   // one per product
    int64_t rank() const;  // sum of the ranks of all A's in `downs`
  };
  // Returns the parts of `adapter` that belong to the products of this layer.
  RequestAdapter request_adapter_in(const AdapterWeights& adapter) const;
  // Adds the terms of all per-request adapters of the forward pass to y, in place. Computes the
  // down-projections x A^T of all tokens, each with the A of its own adapter, in one tensor, and
  // moves this tensor in one call.
  void add_request_adapters(const at::Tensor& y, const at::Tensor& x,
                            const std::vector<ParameterHandle>& biases, const StepContext& context,
                            LayerScope& scope) const;
  // Adds the terms of one per-request adapter to y, in place. With DoRA, then multiplies y without
  // the bias by AdapterWeights::Product::factors.
  //   y     outputs of the tokens that use the adapter, [rows, sum of out_features on this rank]
  //   z     x A^T of these tokens, [rows, requested.rank()]
  //   bias  concatenated biases of all products, which y includes; undefined: there are none
  void add_request_adapters(const at::Tensor& y, const at::Tensor& z, const at::Tensor& bias,
                            const RequestAdapter& requested) const;
  // Returns x A^T for each A in `downs`, concatenated, in the layout of the layer's output.
  at::Tensor down_projected(const at::Tensor& x, const std::vector<at::Tensor>& downs,
                            const StepContext& context) const;

  std::vector<ParameterHandle> downs_;
  std::vector<Product> products_;
  std::unique_ptr<Dropout> dropout_;
  LayoutChange way_;
  SumOverRanks sum_;
  // output_norms() of the products with magnitudes, kept between passes that are not training;
  // empty: to be computed.
  mutable std::vector<at::Tensor> cached_norms_;
};

}  // namespace colossal::nn
