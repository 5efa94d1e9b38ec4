// Counts the floating-point operations of an operator: those of matrix products and attention. A
// multiplication and an addition are two operations. All other operators count 0.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>

namespace colossal::plan {

// name: with its overload ("aten::mm.out"). arguments: as the dispatcher passes them. Causal
// attention counts only the pairs of query and key that are not masked.
double operator_flops(const std::string& name, c10::ArrayRef<c10::IValue> arguments);

}  // namespace colossal::plan
