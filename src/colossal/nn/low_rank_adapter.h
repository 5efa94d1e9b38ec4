// The low-rank adapter of a linear layer (E. Hu et al., "LoRA: Low-Rank Adaptation of Large
// Language Models", 2021): y = x W^T + scale * dropout(x) A^T B^T. The layer may consist of several
// products whose outputs are concatenated; each may have an adapter, and adapters may share A. This
// adapter is part of the model. In addition, rows may have per-request adapters
// (StepContext::adapted_rows).
//
// With magnitudes m (S. Liu et al. 2024, "DoRA: Weight-Decomposed Low-Rank Adaptation"), output o
// without its bias is multiplied by m_o / |W_o + scale * (B A)_o|. The norm is a constant for
// gradients. With dropout, only the adapter's change is computed from dropout(x), as in peft.
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
  struct Product {
    std::string name;          // full name: "blocks.3.query"
    ParameterHandle up;        // B [out_features, rank]; empty: no adapter
    size_t down = 0;           // index of A in `downs`
    int64_t out_features = 0;  // on this rank
    double scale = 1;
    ParameterHandle magnitudes;  // [out_features]; empty: none
    ParameterHandle weight;      // set if magnitudes is set
  };
  // Redistributes z = dropout(x) A^T, [.., ranks of all A's concatenated], from the layout of x to
  // the layout of y. Null: nothing to move.
  using Move = std::function<at::Tensor(const at::Tensor& z, const StepContext& context)>;
  // Returns the range of a step's tokens, as indices into [batch * sequence], that this rank has of
  // an activation.
  using Tokens = std::function<Range(const StepContext& context)>;
  // How tokens get from x to y.
  struct Way {
    Move move = nullptr;
    Tokens of_x = nullptr, of_y = nullptr;  // null: all tokens

    // For layers whose y has the layout of x.
    static Way here(const Tokens& tokens) { return {nullptr, tokens, tokens}; }
  };
  // Computes the products y [.., out_features on this rank] of an input, with `biases` if not
  // empty. The caller owns the result and may overwrite it.
  using Multiply =
      std::function<at::Tensor(const at::Tensor& x, const std::vector<ParameterHandle>& biases)>;

  LowRankAdapter() = default;  // adapts nothing
  // downs: the A's, [rank, in_features on this rank] each; empty: the model has no adapter for
  // these products. dropout: applied to x; null: none. sum: see output_norms().
  LowRankAdapter(std::vector<ParameterHandle> downs, std::vector<Product> products,
                 std::unique_ptr<Dropout> dropout, Way way, SumOverRanks sum)
      : downs_(std::move(downs)),
        products_(std::move(products)),
        dropout_(std::move(dropout)),
        way_(std::move(way)),
        sum_(std::move(sum)) {}

  // Returns the products of x with their biases and the changes of all adapters. biases: one per
  // product, or empty.
  at::Tensor apply(const at::Tensor& x, const std::vector<ParameterHandle>& biases,
                   const StepContext& context, LayerScope& scope, const Multiply& multiply) const;

 private:
  bool has_magnitudes() const;
  at::Tensor add_own(const at::Tensor& y, const at::Tensor& x, const StepContext& context,
                     LayerScope& scope) const;
  at::Tensor scaled(const at::Tensor& x, const std::vector<ParameterHandle>& biases,
                    const StepContext& context, LayerScope& scope, const Multiply& multiply) const;
  // Adds the adapter's term; x: after dropout.
  at::Tensor add_dropped(const at::Tensor& y, const at::Tensor& x, const StepContext& context,
                         LayerScope& scope) const;
  at::Tensor factors(const StepContext& context, LayerScope& scope) const;
  // The parts of a per-request adapter for these products.
  struct RequestAdapter {
    std::vector<at::Tensor> downs;  // distinct A's
    struct Up {
      const AdapterWeights::Product* product = nullptr;  // null: no adapter
      size_t down = 0;                                   // index of A in `downs`
    };
    std::vector<Up> ups;   // one per product
    int64_t rank() const;  // sum of the ranks of all A's
  };
  RequestAdapter request_adapter_in(const AdapterWeights& adapter) const;
  // Adds the terms of all per-request adapters of the step. The down-projections x A^T of all
  // adapters are redistributed together, each in the rows of its tokens.
  void add_request_adapters(const at::Tensor& y, const at::Tensor& x,
                            const std::vector<ParameterHandle>& biases, const StepContext& context,
                            LayerScope& scope) const;
  // Adds one per-request adapter's term to y [rows, out_features on this rank]; z: x A^T of these
  // rows.
  void add_request_adapters(const at::Tensor& y, const at::Tensor& z, const at::Tensor& bias,
                            const RequestAdapter& brought) const;
  at::Tensor down_projected(const at::Tensor& x, const std::vector<at::Tensor>& downs,
                            const StepContext& context) const;

  std::vector<ParameterHandle> downs_;
  std::vector<Product> products_;
  std::unique_ptr<Dropout> dropout_;
  Way way_;
  SumOverRanks sum_;
  mutable std::vector<at::Tensor> kept_norms_;  // weight norms since the last training pass
};

}  // namespace colossal::nn
