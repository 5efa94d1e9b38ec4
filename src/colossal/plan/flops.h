// Counts the floating-point operations of an operator: those of products and attention, a
// multiplication and an addition as one each. Everything else counts 0.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>

namespace colossal::plan {

// name: with its overload ("aten::mm.out"). arguments: as the dispatcher has them. Causal attention
// counts the pairs of query and key that are computed, not those that are masked.
double operator_flops(const std::string& name, c10::ArrayRef<c10::IValue> arguments);

}  // namespace colossal::plan
