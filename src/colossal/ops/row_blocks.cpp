#include "colossal/ops/row_blocks.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstring>

#include "colossal/base/error.h"
#include "colossal/ops/parallel_for.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kTokensOfTask = 64;

void put_rows_cpu(const at::Tensor& result, const at::Tensor& rows, const at::Tensor& tokens,
                  int64_t first_row) {
  const int64_t* token = tokens.const_data_ptr<int64_t>();
  const auto bytes = static_cast<size_t>(rows.size(1) * rows.element_size());
  const char* from = static_cast<const char*>(rows.const_data_ptr());
  char* to = static_cast<char*>(result.mutable_data_ptr());
  parallel_for(0, tokens.numel(), kTokensOfTask, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t row = token[i] - first_row;
      if (row >= 0 && row < rows.size(0)) std::memcpy(to + i * bytes, from + row * bytes, bytes);
    }
  });
}

at::Tensor rows_missing(const at::Tensor& local, int64_t rows) {
  return local.lt(0).bitwise_or_(local.ge(rows));
}

void put_rows_any(const at::Tensor& result, const at::Tensor& rows, const at::Tensor& tokens,
                  int64_t first_row) {
  const at::Tensor local = tokens - first_row;
  const at::Tensor missing = rows_missing(local, rows.size(0));
  const at::Tensor found = at::embedding(rows, local.masked_fill(missing, 0));
  result.copy_(found.where(missing.logical_not().unsqueeze(-1), result));
}

// Copies the rows of those tokens that are in the block to the tokens' places in `result`.
struct PutRows : torch::autograd::Function<PutRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& result,
                            const at::Tensor& rows, const at::Tensor& tokens, int64_t first_row) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->save_for_backward({tokens});
    context->saved_data["first_row"] = first_row;
    context->saved_data["rows"] = rows.size(0);
    context->mark_dirty({result});
    if (rows.size(0) == 0 || result.is_meta()) return result;
    (result.is_cpu() ? put_rows_cpu : put_rows_any)(result, rows, tokens, first_row);
    return result;
  }

  // Passes on the whole gradient of `result`: the elements that forward() overwrote were zeros, and
  // the nodes of earlier blocks read only the gradients of their own tokens.
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    constexpr int64_t kNoRow = -1;  // padding_idx, which embedding_dense_backward() skips
    const at::Tensor tokens = context->get_saved_variables()[0];
    const int64_t rows = context->saved_data["rows"].toInt();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    at::Tensor local = tokens - context->saved_data["first_row"].toInt();
    local.masked_fill_(rows_missing(local, rows), kNoRow);
    return {gradients[0],
            at::embedding_dense_backward(gradients[0], local, rows, kNoRow,
                                         /*scale_grad_by_freq=*/false),
            {},
            {}};
  }
};

}  // namespace

at::Tensor look_up(const ForEachBlock& table, const at::Tensor& tokens) {
  const at::Tensor places = tokens.contiguous();
  at::Tensor result;
  table([&](const at::Tensor& rows, int64_t begin) {
    if (!result.defined()) {
      std::vector<int64_t> sizes = tokens.sizes().vec();
      sizes.push_back(rows.size(1));
      result = at::zeros(sizes, rows.options().requires_grad(false));
    }
    result = PutRows::apply(result, rows, places, begin);
  });
  return result;
}

}  // namespace colossal::ops
