#include "colossal/ops/random.h"

#include <torch/library.h>

#include <string>

#include "colossal/base/error.h"
#include "colossal/ops/fallback/aten_fallback.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/parallel_for.h"

namespace colossal::ops {
namespace {

void fill_normal_cpu(const at::Tensor& values, int64_t begin, int64_t key, double mean,
                     double deviation) {
  const auto type = element_type(values.scalar_type());
  char* data = static_cast<char*>(values.mutable_data_ptr());
  parallel_for(0, values.numel(), kElementsPerThread, [&](int64_t first, int64_t last) {
    kernels::vector_kernels().fill_normal(unpack_key(key), begin + first, last - first, mean,
                                          deviation, data + first * values.element_size(), type);
  });
}

void fill_normal_meta(const at::Tensor&, int64_t, int64_t, double, double) {}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def("fill_normal_(Tensor(a!) values, int begin, int key, float mean, float deviation) -> ()");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("fill_normal_", fill_normal_cpu);
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("fill_normal_", aten_fallback::fill_normal);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("fill_normal_", fill_normal_meta);
}

}  // namespace

RandomKey parameter_stream(uint64_t seed, std::string_view name) {
  return random_key(seed, 0, "parameter:" + std::string(name));
}

void fill_normal(const at::Tensor& values, int64_t begin, RandomKey stream, double mean,
                 double deviation) {
  COLOSSAL_CHECK(values.is_contiguous() && begin >= 0, "contiguous {}, begin {}",
                 values.is_contiguous(), begin);
  static const auto op = find_operator<decltype(fill_normal_cpu)>("colossal::fill_normal_");
  op.call(values, begin, pack_key(stream), mean, deviation);
}

}  // namespace colossal::ops
