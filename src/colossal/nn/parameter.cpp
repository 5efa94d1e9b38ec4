#include "colossal/nn/parameter.h"

#include <numeric>

#include "colossal/base/error.h"
#include "colossal/nn/layer_scope.h"
#include "colossal/ops/product/packed_weight.h"

namespace colossal::nn {

namespace {

int64_t product_of(const std::vector<int64_t>& sizes, size_t first = 0) {
  return std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(first), sizes.end(),
                         int64_t{1}, std::multiplies<>());
}

}  // namespace

int64_t Parameter::numel() const {
  return product_of(shape);
}

std::vector<int64_t> Parameter::local_shape() const {
  if (placement.held.empty()) return shape;
  std::vector<int64_t> local;
  for (const std::vector<Range>& runs : placement.held) {
    local.push_back(
        std::accumulate(runs.begin(), runs.end(), int64_t{0},
                        [](int64_t total, const Range& run) { return total + run.size(); }));
  }
  return local;
}

int64_t Parameter::local_numel() const {
  return product_of(local_shape());
}

std::vector<int64_t> Parameter::stored_shape() const {
  return packed ? std::vector{packed->bytes()} : local_shape();
}

int64_t Parameter::stored_numel() const {
  return packed ? packed->bytes() : local_numel();
}

int64_t Parameter::stored_numel_over_ranks() const {
  if (!packed) return numel_over_ranks();
  return ops::PackedLayout::whole(packed->type(), packed->outputs(), packed->inputs()).bytes();
}

at::ScalarType Parameter::stored_type(at::ScalarType working) const {
  if (packed) return at::kByte;
  return in_fp32 && at::isReducedFloatingType(working) ? at::kFloat : working;
}

bool Parameter::is_contiguous_here() const {
  int runs = 0;
  for_each_run({0, local_numel()}, [&](const Run&) { ++runs; });
  return runs <= 1;
}

void Parameter::for_each_run(Range local, const std::function<void(const Run&)>& visit) const {
  if (local.empty()) return;
  const std::vector<int64_t> here = local_shape();
  // `cut` is the last dim that is sharded. The dims after it are contiguous with it.
  size_t cut = shape.size();
  while (cut > 0 && here[cut - 1] == shape[cut - 1]) --cut;
  if (cut == 0) return visit({local.begin, local.begin, local.size()});
  --cut;
  const int64_t inner = product_of(shape, cut + 1);
  // Number of local elements for one combination of indices of the dims before `cut`.
  const int64_t row = here[cut] * inner;
  for (int64_t index = local.begin / row; index * row < local.end; ++index) {
    // `outer` becomes the global number of local combination `index`.
    int64_t outer = 0, rest = index;
    for (size_t dim = 0; dim < cut; ++dim) {
      const int64_t below = product_of(here, dim + 1) / row;
      int64_t coordinate = rest / below;
      rest %= below;
      for (const Range& run : placement.held[dim]) {
        if (coordinate < run.size()) {
          coordinate += run.begin;
          break;
        }
        coordinate -= run.size();
      }
      outer = outer * shape[dim] + coordinate;
    }
    int64_t local_begin = index * row;
    for (const Range& run : placement.held[cut]) {
      const Range mine = intersect({local_begin, local_begin + run.size() * inner}, local);
      if (!mine.empty()) {
        const int64_t begin = (outer * shape[cut] + run.begin) * inner + mine.begin - local_begin;
        visit({begin, mine.begin, mine.size()});
      }
      local_begin += run.size() * inner;
    }
  }
}

at::Tensor ParameterHandle::use(LayerScope& scope) const {
  if (parameter_->residency) scope.hold(*this);
  COLOSSAL_CHECK(parameter_->tensor.defined(), "parameter {} has no storage", parameter_->name);
  const at::Tensor& tied = parameter_->tied_tensor;
  return reads_tied_ && tied.defined() ? tied : parameter_->tensor;
}

at::Tensor ParameterHandle::use_of(LayerScope& scope, const std::vector<int64_t>& counts) const {
  if (parameter_->residency) scope.hold(*this, &counts);
  COLOSSAL_CHECK(parameter_->tensor.defined(), "parameter {} has no storage", parameter_->name);
  return parameter_->tensor;
}

ParameterHandle ParameterHandle::tie() const {
  COLOSSAL_CHECK(!parameter_->tied, "parameter {} is tied twice", parameter_->name);
  parameter_->tied = true;
  ParameterHandle second = *this;
  second.reads_tied_ = true;
  return second;
}

std::vector<at::Tensor> used(const std::vector<ParameterHandle>& handles, LayerScope& scope) {
  std::vector<at::Tensor> tensors;
  for (const ParameterHandle& handle : handles) tensors.push_back(handle.use(scope));
  return tensors;
}

std::vector<std::shared_ptr<const ops::QuantizedMatrix>> quantized_matrices(
    const std::vector<ParameterHandle>& handles) {
  std::vector<std::shared_ptr<const ops::QuantizedMatrix>> matrices;
  for (const ParameterHandle& handle : handles) matrices.push_back(handle->quantized);
  return matrices;
}

}  // namespace colossal::nn
