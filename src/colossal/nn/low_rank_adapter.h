// The adapter of a product, beside its weight (E. Hu et al., "LoRA: Low-Rank Adaptation of Large
// Language Models", 2021): y = x W^T + scale * dropout(x) A^T B^T. Of several products side by side
// some may be adapted, and some of those may share A.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/layers.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

class LowRankAdapter {
 public:
  struct Product {
    ParameterHandle up;        // B [out_features here, rank]; empty: it is not adapted
    size_t down = 0;           // which of the A's it has
    int64_t out_features = 0;  // here
  };
  // What the ranks that share a product do with dropout(x) A^T, [.., ranks of all A's side by
  // side], to bring it from where x lies to where y lies. Null: nothing.
  using Move = std::function<at::Tensor(const at::Tensor& z, const StepContext& context)>;

  LowRankAdapter() = default;  // of products that are not adapted
  // downs: the A's, [rank, in_features here] each. dropout: of x; null: none.
  LowRankAdapter(std::vector<ParameterHandle> downs, std::vector<Product> products, double scale,
                 std::unique_ptr<Dropout> dropout, Move move)
      : downs_(std::move(downs)),
        products_(std::move(products)),
        scale_(scale),
        dropout_(std::move(dropout)),
        move_(std::move(move)) {}

  // The products' y [.., out_features here], and what the adapter adds to it for their x. y is
  // spent: it must be the only use of what made it.
  at::Tensor add(const at::Tensor& y, const at::Tensor& x, const StepContext& context,
                 LayerScope& scope) const;

 private:
  std::vector<ParameterHandle> downs_;
  std::vector<Product> products_;
  double scale_ = 1;
  std::unique_ptr<Dropout> dropout_;
  Move move_;
};

}  // namespace colossal::nn
