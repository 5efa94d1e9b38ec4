#include "colossal/python/reduction.h"

#include <ATen/ATen.h>

#include <vector>

#include "colossal/base/error.h"
#include "colossal/comm/law.h"
#include "colossal/comm/sum.h"

namespace colossal::python {
namespace {

using Operation = c10d::ReduceOp;

bool is_bitwise(ReduceOperation operation) {
  return operation == Operation::BAND || operation == Operation::BOR ||
         operation == Operation::BXOR;
}

const char* name_of(ReduceOperation operation) {
  switch (operation) {
    case Operation::SUM:
      return "SUM";
    case Operation::AVG:
      return "AVG";
    case Operation::PRODUCT:
      return "PRODUCT";
    case Operation::MIN:
      return "MIN";
    case Operation::MAX:
      return "MAX";
    case Operation::BAND:
      return "BAND";
    case Operation::BOR:
      return "BOR";
    case Operation::BXOR:
      return "BXOR";
    case Operation::PREMUL_SUM:
      return "PREMUL_SUM";
    default:
      return "an unknown operation";
  }
}

bool is_half(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16;
}

// Whether comm's sums do it; the mean of a half type needs an unrounded sum.
bool is_sum(ReduceOperation operation, at::ScalarType type, at::ScalarType into) {
  return (operation == Operation::SUM || operation == Operation::AVG) && comm::can_sum(type, into);
}

void divide(const at::Tensor& sum, int ranks) {
  if (c10::isIntegralType(sum.scalar_type(), /*includeBool=*/false)) {
    sum.div_(ranks, "trunc");
  } else {
    sum.div_(ranks);
  }
}

// result <- result combined with `term`
void combine(const at::Tensor& result, const at::Tensor& term, ReduceOperation operation) {
  at::Tensor out = result;
  switch (operation) {
    case Operation::SUM:
    case Operation::AVG:
      out.add_(term);
      break;
    case Operation::PRODUCT:
      out.mul_(term);
      break;
    case Operation::MIN:
      at::minimum_out(out, result, term);
      break;
    case Operation::MAX:
      at::maximum_out(out, result, term);
      break;
    case Operation::BAND:
      out.bitwise_and_(term);
      break;
    case Operation::BOR:
      out.bitwise_or_(term);
      break;
    case Operation::BXOR:
      out.bitwise_xor_(term);
      break;
    default:
      COLOSSAL_CHECK(false, "reduces with {}", name_of(operation));
  }
}

// A reduce_scatter for which comm has no sum: each rank gets all ranks' terms of its own part.
void exchange_and_combine(const at::Tensor& full, const at::Tensor& part, comm::Counts counts,
                          ReduceOperation operation, const comm::Group& group) {
  const int64_t own = counts[group.rank()];
  const at::Tensor terms = at::empty({group.size() * own}, full.options());
  comm::all_to_all(full, counts, terms, std::vector(group.size(), own), group, kReason);
  const at::Tensor result = terms.narrow(0, 0, own);
  for (int rank = 1; rank < group.size(); ++rank) {
    combine(result, terms.narrow(0, rank * own, own), operation);
  }
  if (operation == Operation::AVG) divide(result, group.size());
  part.copy_(result);
}

}  // namespace

void check_reduction(ReduceOperation operation, at::ScalarType type) {
  if (operation > Operation::BXOR) {
    throw ConfigError(
        fmt::format("op={}: the backend \"colossal\" reduces with SUM, AVG, PRODUCT, MIN, MAX, "
                    "BAND, BOR and BXOR",
                    name_of(operation)));
  }
  const bool is_integer = type == at::kBool || type == at::kByte || type == at::kChar ||
                          type == at::kShort || type == at::kInt || type == at::kLong;
  const bool is_real = type == at::kFloat || type == at::kDouble || is_half(type);
  if (!is_integer && !is_real) {
    throw ConfigError(
        fmt::format("a reduction of {}: the backend \"colossal\" reduces bool, "
                    "uint8, int8 to int64, bf16, fp16, fp32 and fp64",
                    c10::toString(type)));
  }
  if (is_bitwise(operation) && !is_integer) {
    throw ConfigError(fmt::format("op={} of {}: bitwise operations take integers and bool",
                                  name_of(operation), c10::toString(type)));
  }
  if (operation == Operation::AVG && type == at::kBool) {
    throw ConfigError("op=AVG of bool: choose SUM, which is \"or\", or another type");
  }
}

void all_reduce(const at::Tensor& tensor, ReduceOperation operation, const comm::Group& group) {
  const at::ScalarType type = tensor.scalar_type();
  const bool rounds = operation == Operation::AVG && is_half(type);
  if (is_sum(operation, type, type) && !rounds) {
    comm::all_reduce(tensor, group, kReason);
    if (operation == Operation::AVG) divide(tensor, group.size());
    return;
  }
  const std::vector<int64_t> counts = comm::even_counts(tensor.numel(), group.size());
  const int64_t begin = comm::offsets_of(counts)[group.rank()];
  reduce_scatter(tensor, tensor.narrow(0, begin, counts[group.rank()]), counts, operation, group);
  comm::all_gather(tensor, counts, group, kReason);
}

void reduce_scatter(const at::Tensor& full, const at::Tensor& part, comm::Counts counts,
                    ReduceOperation operation, const comm::Group& group) {
  const at::ScalarType type = full.scalar_type();
  if (!is_sum(operation, type, type)) {
    return exchange_and_combine(full, part, counts, operation, group);
  }
  const bool is_mean = operation == Operation::AVG;
  const at::Tensor sum = is_mean && is_half(type) ? at::empty_like(part, at::kFloat) : part;
  comm::reduce_scatter(full, sum, counts, group, kReason);
  if (is_mean) divide(sum, group.size());
  if (!sum.is_same(part)) part.copy_(sum);
}

void reduce(const at::Tensor& tensor, int root, ReduceOperation operation,
            const comm::Group& group) {
  const std::vector<int64_t> counts = comm::even_counts(tensor.numel(), group.size());
  const at::Tensor part = at::empty({counts[group.rank()]}, tensor.options());
  reduce_scatter(tensor, part, counts, operation, group);
  std::vector<int64_t> sent(group.size(), 0);
  sent[root] = part.numel();
  const bool receives = group.rank() == root;
  const std::vector<int64_t> nothing(group.size(), 0);
  comm::all_to_all(part, sent, receives ? tensor : tensor.narrow(0, 0, 0),
                   receives ? counts : nothing, group, kReason);
}

}  // namespace colossal::python
