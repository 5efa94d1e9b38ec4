#include "colossal/ops/norm/norm_rows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/parallel_for.h"

namespace colossal::ops {

int64_t num_groups_of(int64_t rows) {
  return (rows + kRowsPerGroup - 1) / kRowsPerGroup;
}

at::Tensor contiguous_or_undefined(const std::optional<at::Tensor>& given) {
  return given && given->defined() ? given->contiguous() : at::Tensor();
}

at::Tensor double_or_undefined(const std::optional<at::Tensor>& given) {
  return given && given->defined() ? given->to(at::kDouble) : at::Tensor();
}

RowsAt<const char> rows_of(const at::Tensor& x) {
  if (!x.defined()) return {};
  return {static_cast<const char*>(x.const_data_ptr()), x.size(-1) * x.element_size()};
}

RowsAt<char> rows_to_write(const at::Tensor& x) {
  if (!x.defined()) return {};
  return {static_cast<char*>(x.mutable_data_ptr()), x.size(-1) * x.element_size()};
}

at::Tensor gradient_parts(const at::Tensor& x, int64_t rows, int64_t features) {
  return at::zeros({std::max<int64_t>(1, num_groups_of(rows)), features},
                   x.options().dtype(compute_type(x.scalar_type())));
}

at::Tensor sum_of_parts(const at::Tensor& parts, at::ScalarType type) {
  const int64_t count = parts.size(0), features = parts.size(1);
  at::Tensor total = at::empty({features}, parts.options().dtype(type));
  if (parts.is_meta()) return total;
  const auto wide = element_type(parts.scalar_type()), narrow = element_type(type);
  const RowsAt<char> rows = rows_to_write(parts);
  auto* const to = static_cast<char*>(total.mutable_data_ptr());
  parallel_for(0, features, kElementsPerThread / count + 1, [&](int64_t begin, int64_t end) {
    const auto from = [&](int64_t part) { return rows[part] + begin * parts.element_size(); };
    for (int64_t part = 1; part < count; ++part) {
      kernels::vector_kernels().accumulate(from(part), wide, from(0), wide, end - begin);
    }
    kernels::vector_kernels().convert(from(0), wide, to + begin * total.element_size(), narrow,
                                      end - begin, 1);
  });
  return total;
}

}  // namespace colossal::ops
