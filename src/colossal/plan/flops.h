// Counts the floating-point operations (FLOPs) of matrix products and attention. A multiplication
// with an addition is two FLOPs.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>

namespace colossal::plan {

// Returns the FLOPs of one call of an operator; 0 if it is neither a matrix product nor attention.
// name: with its overload ("aten::mm.out"). arguments: as the dispatcher passes them. For
// attention, only those pairs of a query and a key count in which the query may see the key
// (ops::AttentionRule: causality, window, prefixes); boundaries of documents are ignored.
double operator_flops(const std::string& name, c10::ArrayRef<c10::IValue> arguments);

}  // namespace colossal::plan
