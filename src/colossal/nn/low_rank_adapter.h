// The adapter of a product, beside its weight (E. Hu et al., "LoRA: Low-Rank Adaptation of Large
// Language Models", 2021): y = x W^T + scale * dropout(x) A^T B^T. Several products may lie side by
// side; some are adapted, and some of these share A. Beside this adapter, which is part of the
// model, rows may have one that a step brings along (StepContext::adapted_rows).
//
// With magnitudes m (S. Liu et al. 2024, "DoRA: Weight-Decomposed Low-Rank Adaptation"), output o
// is multiplied by m_o / |W_o + scale * (B A)_o|, its bias left out. That norm counts as a constant
// for gradients. With dropout only what the adapter changes is made of dropout(x), as peft has it.
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
    std::string name;          // full: "blocks.3.query"
    ParameterHandle up;        // B [out_features here, rank]; empty: not adapted
    size_t down = 0;           // index of its A
    int64_t out_features = 0;  // here
    double scale = 1;
    ParameterHandle magnitudes;  // [out_features here]; empty: it has none
    ParameterHandle weight;      // set with magnitudes
  };
  // Moves dropout(x) A^T, [.., ranks of all A's side by side], from how x is sharded to how y is.
  // Null: nothing to move.
  using Move = std::function<at::Tensor(const at::Tensor& z, const StepContext& context)>;
  // Which of a step's tokens, counted row by row, an activation has here.
  using Tokens = std::function<Range(const StepContext& context)>;
  // From x to y.
  struct Way {
    Move move = nullptr;
    Tokens of_x = nullptr, of_y = nullptr;  // null: all

    // Where y lies as x does.
    static Way here(const Tokens& tokens) { return {nullptr, tokens, tokens}; }
  };
  // Makes the products y of an input, [.., out_features here], with these biases or none. The
  // result has no other use.
  using Multiply =
      std::function<at::Tensor(const at::Tensor& x, const std::vector<ParameterHandle>& biases)>;

  LowRankAdapter() = default;  // adapts nothing
  // downs: the A's, [rank, in_features here] each; none: no product has an adapter of the model's
  // own. dropout: of x; null: none. sum: see output_norms().
  LowRankAdapter(std::vector<ParameterHandle> downs, std::vector<Product> products,
                 std::unique_ptr<Dropout> dropout, Way way, SumOverRanks sum)
      : downs_(std::move(downs)),
        products_(std::move(products)),
        dropout_(std::move(dropout)),
        way_(std::move(way)),
        sum_(std::move(sum)) {}

  // Returns the products of x with their biases, and what adapters change. biases: as many as
  // products, or none.
  at::Tensor apply(const at::Tensor& x, const std::vector<ParameterHandle>& biases,
                   const StepContext& context, LayerScope& scope, const Multiply& multiply) const;

 private:
  bool has_magnitudes() const;
  at::Tensor add_own(const at::Tensor& y, const at::Tensor& x, const StepContext& context,
                     LayerScope& scope) const;
  at::Tensor scaled(const at::Tensor& x, const std::vector<ParameterHandle>& biases,
                    const StepContext& context, LayerScope& scope, const Multiply& multiply) const;
  // The same of what dropout has left of x.
  at::Tensor add_dropped(const at::Tensor& y, const at::Tensor& x, const StepContext& context,
                         LayerScope& scope) const;
  at::Tensor factors(const StepContext& context, LayerScope& scope) const;
  // What one that a step brings along has for these products.
  struct Brought {
    std::vector<at::Tensor> downs;  // its A's
    struct Up {
      const AdapterWeights::Product* product = nullptr;  // null: not adapted
      size_t down = 0;                                   // which A it has
    };
    std::vector<Up> ups;   // of each product
    int64_t rank() const;  // of all A's side by side
  };
  Brought brought_by(const AdapterWeights& adapter) const;
  // Of all of the step: what they narrow x to travels at once, each in the rows of its tokens.
  void add_brought(const at::Tensor& y, const at::Tensor& x,
                   const std::vector<ParameterHandle>& biases, const StepContext& context,
                   LayerScope& scope) const;
  // To y [rows, out_features here]; z: what x is narrowed to.
  void add_brought(const at::Tensor& y, const at::Tensor& z, const at::Tensor& bias,
                   const Brought& brought) const;
  at::Tensor narrowed(const at::Tensor& x, const std::vector<at::Tensor>& downs,
                      const StepContext& context) const;

  std::vector<ParameterHandle> downs_;
  std::vector<Product> products_;
  std::unique_ptr<Dropout> dropout_;
  Way way_;
  SumOverRanks sum_;
  mutable std::vector<at::Tensor> kept_norms_;  // since the last training pass
};

}  // namespace colossal::nn
