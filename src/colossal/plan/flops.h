// Counts the floating-point operations (FLOPs) of operators, for plans (Recorder): those of matrix
// products and attention; other operators count as 0. A multiply-add counts as two FLOPs.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>

namespace colossal::plan {

// Returns the FLOPs of one call of an operator; 0 if it is neither a matrix product nor attention.
// name: the operator's name with its overload ("aten::mm.out"). arguments: the arguments of the
// call, in the order of the operator's schema. In attention, a pair of a query and a key counts
// only if the query may attend to the key (ops::AttentionRule: causality, window, prefixes);
// boundaries of documents are ignored.
double operator_flops(const std::string& name, c10::ArrayRef<c10::IValue> arguments);

}  // namespace colossal::plan
