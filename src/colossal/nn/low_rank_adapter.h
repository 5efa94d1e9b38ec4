// The adapter of a product, beside its weight (E. Hu et al., "LoRA: Low-Rank Adaptation of Large
// Language Models", 2021): y = x W^T + scale * dropout(x) A^T B^T. Of several products side by side
// some may be adapted, and some of those may share A. Besides this adapter, which is part of the
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
    ParameterHandle up;        // B [out_features here, rank]; empty: it is not adapted
    size_t down = 0;           // which of the A's it has
    int64_t out_features = 0;  // here
  };
  // What the ranks that share a product do with dropout(x) A^T, [.., ranks of all A's side by
  // side], to bring it from where x lies to where y lies. Null: nothing.
  using Move = std::function<at::Tensor(const at::Tensor& z, const StepContext& context)>;

  LowRankAdapter() = default;  // of no products
  // downs: the A's, [rank, in_features here] each; none: no product has an adapter of the model's
  // own. dropout: of x; null: none.
  LowRankAdapter(std::vector<ParameterHandle> downs, std::vector<Product> products, double scale,
                 std::unique_ptr<Dropout> dropout, Move move)
      : downs_(std::move(downs)),
        products_(std::move(products)),
        scale_(scale),
        dropout_(std::move(dropout)),
        move_(std::move(move)) {}

  // The products' y [.., out_features here], and what adapters add to it for their x. y is spent:
  // it must be the only use of what made it.
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
