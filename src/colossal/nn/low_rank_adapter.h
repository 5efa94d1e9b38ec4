// The adapter of a product, beside its weight (E. Hu et al., "LoRA: Low-Rank Adaptation of Large
// Language Models", 2021): y = x W^T + scale * dropout(x) A^T B^T. Several products may lie side by
// side; some are adapted, and some of these share A. Beside this adapter, which is part of the
// model, rows may have one that a step brings along (StepContext::adapted_rows).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/layers.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

class LowRankAdapter {
 public:
  struct Product {
    std::string name;          // full: "blocks.3.query"
    ParameterHandle up;        // B [out_features here, rank]; empty: not adapted
    size_t down = 0;           // index of its A
    int64_t out_features = 0;  // here
  };
  // Moves dropout(x) A^T, [.., ranks of all A's side by side], from how x is sharded to how y is.
  // Null: nothing to move.
  using Move = std::function<at::Tensor(const at::Tensor& z, const StepContext& context)>;

  LowRankAdapter() = default;  // adapts nothing
  // downs: the A's, [rank, in_features here] each; none: no product has an adapter of the model's
  // own. dropout: of x; null: none.
  LowRankAdapter(std::vector<ParameterHandle> downs, std::vector<Product> products, double scale,
                 std::unique_ptr<Dropout> dropout, Move move)
      : downs_(std::move(downs)),
        products_(std::move(products)),
        scale_(scale),
        dropout_(std::move(dropout)),
        move_(std::move(move)) {}

  // Returns the products' results y, [.., out_features here], plus what adapters add for their
  // input x. It may overwrite y, which must have no other use.
  at::Tensor add(const at::Tensor& y, const at::Tensor& x, const StepContext& context,
                 LayerScope& scope) const;

 private:
  at::Tensor add_own(const at::Tensor& y, const at::Tensor& x, const StepContext& context,
                     LayerScope& scope) const;
  // To y [rows, out_features here] of the rows' x.
  void add_brought(const at::Tensor& y, const at::Tensor& x, const AdapterWeights& adapter,
                   const StepContext& context) const;
  at::Tensor narrowed(const at::Tensor& x, const std::vector<at::Tensor>& downs,
                      const StepContext& context) const;

  std::vector<ParameterHandle> downs_;
  std::vector<Product> products_;
  double scale_ = 1;
  std::unique_ptr<Dropout> dropout_;
  Move move_;
};

}  // namespace colossal::nn
