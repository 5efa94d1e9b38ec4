// Describes the work of operators, for plans (Recorder): the floating-point operations (FLOPs) of
// matrix products and attention, and what else their speed depends on. A multiply-add counts as two
// FLOPs.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <string>

namespace colossal::plan {

enum class OperatorKind : uint8_t {
  product,             // matrix products
  attention,           // the forward pass of attention
  attention_backward,  // its backward pass
  other                // all others: the time depends on the bytes that they read and write
};

struct OperatorWork {
  OperatorKind kind = OperatorKind::other;
  double flops = 0;  // 0 for OperatorKind::other
  // Of a product of [m, k] by [k, n]: the smallest of m, k and n. Small products have a lower rate.
  int64_t narrowest = 0;
  // Number of logits of which the operator computes the cross-entropy, besides its products; half
  // of the number for an operator that computes one of its two passes over the logits.
  double logits = 0;
};

// Returns the work of one call of an operator. name: the operator's name with its overload
// ("aten::mm.out"). arguments: the arguments of the call, in the order of the operator's schema. In
// attention, a pair of a query and a key counts only if the query may attend to the key
// (ops::AttentionRule: causality, window, prefixes); boundaries of documents are ignored.
OperatorWork work_of(const std::string& name, c10::ArrayRef<c10::IValue> arguments);

// Returns whether the table of work_of() has a rule for the operator; without one, its work is that
// of OperatorKind::other. Every operator of Colossal has a rule.
bool has_rule(const std::string& name);

}  // namespace colossal::plan
