// The low-rank adapter of a linear layer (E. Hu et al., "LoRA: Low-Rank Adaptation of Large
// Language Models", 2021): y = x W^T + scale * dropout(x) A^T B^T. The layer may consist of several
// products whose outputs are concatenated; each may have an adapter, and these may share A. They
// are part of the model. In addition, rows may have per-request adapters
// (StepContext::adapted_rows).
//
// With magnitudes m (S. Liu et al. 2024, "DoRA: Weight-Decomposed Low-Rank Adaptation"), output o
// without its bias is multiplied by m_o / |W_o + scale * (B A)_o|, where W_o and (B A)_o are rows
// of the matrices. Backward treats the norm as a constant. With dropout, y is x W^T plus the
// adapter's change, which is computed from dropout(x), as in peft.
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
  // Returns which tokens of a step this rank has in an activation, as a range of indices into
  // [batch * sequence].
  using Tokens = std::function<Range(const StepContext& context)>;
  // How the layout of y differs from that of x.
  struct LayoutChange {
    Move move = nullptr;
    Tokens of_x = nullptr, of_y = nullptr;  // null: all tokens

    // For layers whose y has the layout of x.
    static LayoutChange here(const Tokens& tokens) { return {nullptr, tokens, tokens}; }
  };
  // Computes the products y [.., sum of out_features on this rank] of x, plus `biases` if not
  // empty. The caller owns the result and may overwrite it.
  using Multiply =
      std::function<at::Tensor(const at::Tensor& x, const std::vector<ParameterHandle>& biases)>;

  LowRankAdapter() = default;  // adapts nothing
  // downs: the different A's, [rank, in_features on this rank] each; empty: the model has no
  // adapter for these products. dropout: applied to x; null: none. sum: see output_norms().
  LowRankAdapter(std::vector<ParameterHandle> downs, std::vector<Product> products,
                 std::unique_ptr<Dropout> dropout, LayoutChange way, SumOverRanks sum)
      : downs_(std::move(downs)),
        products_(std::move(products)),
        dropout_(std::move(dropout)),
        way_(std::move(way)),
        sum_(std::move(sum)) {}

  // Returns the products of x, which `multiply` computes, with their biases and the changes by all
  // adapters: the model's, if context.adapted, and per-request ones. biases: one per product, or
  // empty.
  at::Tensor apply(const at::Tensor& x, const std::vector<ParameterHandle>& biases,
                   const StepContext& context, LayerScope& scope, const Multiply& multiply) const;

 private:
  bool has_magnitudes() const;
  // Returns y plus the terms of the model's adapters, without magnitudes; may overwrite y.
  at::Tensor add_own(const at::Tensor& y, const at::Tensor& x, const StepContext& context,
                     LayerScope& scope) const;
  // Returns the products with the model's adapters and magnitudes, and with biases.
  at::Tensor scaled(const at::Tensor& x, const std::vector<ParameterHandle>& biases,
                    const StepContext& context, LayerScope& scope, const Multiply& multiply) const;
  // Returns y plus the terms of the model's adapters; x: after dropout.
  at::Tensor add_dropped(const at::Tensor& y, const at::Tensor& x, const StepContext& context,
                         LayerScope& scope) const;
  // Returns m_o / norm_o of all outputs, [sum of out_features on this rank]; 1 without magnitudes.
  at::Tensor factors(const StepContext& context, LayerScope& scope) const;
  // The parts of a per-request adapter that belong to these products.
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
  // Adds the terms of all per-request adapters of the step to y. The down-projections x A^T of all
  // adapters are redistributed in one tensor, each in the rows of its tokens.
  void add_request_adapters(const at::Tensor& y, const at::Tensor& x,
                            const std::vector<ParameterHandle>& biases, const StepContext& context,
                            LayerScope& scope) const;
  // Adds one per-request adapter's terms to y [rows, sum of out_features on this rank]; z: x A^T of
  // these rows; bias: that of all products, already in y, or undefined.
  void add_request_adapters(const at::Tensor& y, const at::Tensor& z, const at::Tensor& bias,
                            const RequestAdapter& requested) const;
  // Returns x A^T for all of `downs`, concatenated, in the layout of y.
  at::Tensor down_projected(const at::Tensor& x, const std::vector<at::Tensor>& downs,
                            const StepContext& context) const;

  std::vector<ParameterHandle> downs_;
  std::vector<Product> products_;
  std::unique_ptr<Dropout> dropout_;
  LayoutChange way_;
  SumOverRanks sum_;
  mutable std::vector<at::Tensor>
      cached_norms_;  // norms since the last training pass; may be empty
};

}  // namespace colossal::nn
