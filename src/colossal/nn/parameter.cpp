#include "colossal/nn/parameter.h"

#include <functional>
#include <numeric>

#include "colossal/base/error.h"

namespace colossal::nn {

int64_t Parameter::numel() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

at::Tensor ParameterHandle::use() const {
  if (parameter_->residency) parameter_->residency->before_use(*parameter_);
  COLOSSAL_CHECK(parameter_->tensor.defined(), "parameter {} has no storage", parameter_->name);
  return parameter_->tensor;
}

}  // namespace colossal::nn
