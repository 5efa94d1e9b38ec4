// Saves a pointer to a group in the context of an autograd Function, so that its backward pass can
// communicate. The group must outlive the backward pass. A context can save one group.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include "colossal/comm/group.h"

namespace colossal::parallel {

inline void save_group(torch::autograd::AutogradContext* context, const comm::Group& group) {
  context->saved_data["group"] = reinterpret_cast<int64_t>(&group);
}

inline const comm::Group& saved_group(torch::autograd::AutogradContext* context) {
  return *reinterpret_cast<const comm::Group*>(context->saved_data["group"].toInt());
}

}  // namespace colossal::parallel
