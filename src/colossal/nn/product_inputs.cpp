#include "colossal/nn/product_inputs.h"

#include <utility>

#include "colossal/base/error.h"

namespace colossal::nn {
namespace {

thread_local const ProductInputCallback* listener = nullptr;

}  // namespace

ProductInputListener::ProductInputListener(ProductInputCallback tell) : tell_(std::move(tell)) {
  COLOSSAL_CHECK(listener == nullptr, "the inputs of products are told already");
  listener = &tell_;
}

ProductInputListener::~ProductInputListener() {
  listener = nullptr;
}

void report_product_inputs(const std::vector<ParameterHandle>& weights, const at::Tensor& x) {
  if (listener) (*listener)(weights, std::nullopt, x.flatten(0, -2));
}

void report_expert_inputs(const std::vector<ParameterHandle>& stacks,
                          const std::vector<int64_t>& counts, const at::Tensor& rows) {
  if (!listener) return;
  int64_t first = 0;
  for (size_t expert = 0; expert < counts.size(); ++expert) {
    if (counts[expert] > 0) {
      (*listener)(stacks, static_cast<int64_t>(expert), rows.narrow(0, first, counts[expert]));
    }
    first += counts[expert];
  }
}

}  // namespace colossal::nn
