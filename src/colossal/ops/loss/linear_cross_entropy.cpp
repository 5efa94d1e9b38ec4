#include "colossal/ops/loss/linear_cross_entropy.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cstring>
#include <limits>
#include <optional>
#include <tuple>

#include "colossal/base/error.h"
#include "colossal/base/range.h"
#include "colossal/ops/attention/block_softmax.h"
#include "colossal/ops/deferred_gradients.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/norm/sum_rows.h"
#include "colossal/ops/optimizer_kernels.h"
#include "colossal/ops/parallel_for.h"
#include "colossal/ops/product/bf16_product.h"
#include "colossal/ops/product/libtorch_product.h"
#include "colossal/ops/product/product.h"
#include "colossal/ops/row_blocks.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kRowMultiple = 64;  // matrix products run faster on multiples of this

// Returns the sum of the losses of a block of tokens, a scalar in fp64. logits: [tokens, rows],
// already capped. With `gradient`, overwrites the logits by the gradient of the uncapped logits.
using LossesOfBlock =
    std::function<at::Tensor(const at::Tensor& logits, const at::Tensor& labels, bool gradient)>;

// Returns the labels counted from row `begin` of the vocabulary; -1 for ignored labels.
at::Tensor labels_from(const at::Tensor& labels, const at::Tensor& ignored, int64_t begin) {
  return (labels - begin).masked_fill_(ignored, -1);
}

LossesOfBlock losses_of_shard(const VocabularyShard& shard, double soft_cap) {
  return
      [&shard, soft_cap](const at::Tensor& logits, const at::Tensor& global_labels, bool gradient) {
        const at::Tensor ignored = global_labels.eq(kIgnoredLabel);
        const at::Tensor labels = labels_from(global_labels, ignored, shard.begin);
        const at::Tensor statistics = softmax_statistics(logits, labels);
        shard.combine(statistics);
        if (gradient) cross_entropy_gradient(logits, labels, ignored, statistics, soft_cap);
        return losses_of(statistics).masked_fill_(ignored, 0).sum(at::kDouble);
      };
}

// Adds a block's product logits_gradient^T x to `sum`; if it is the first block, overwrites `sum`.
// Products of bf16 operands are not rounded to bf16 before they are added.
void add_weight_gradient(const at::Tensor& logits_gradient, const at::Tensor& x, bool first,
                         at::Tensor& sum) {
  if (x.scalar_type() == sum.scalar_type()) {
    first ? libtorch_product_out(sum, logits_gradient.t(), x)
          : add_libtorch_product(sum, logits_gradient.t(), x);
  } else if (x.is_cpu() || x.is_meta()) {
    summed_product(logits_gradient.t(), x, sum, !first);
  } else {
    if (first) sum.zero_();
    add_libtorch_product(sum, logits_gradient.t(), x);
  }
}

void check_labels(const at::Tensor& labels, int64_t vocabulary) {
  const int64_t* data = labels.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < labels.numel(); ++i) {
    COLOSSAL_CHECK(data[i] == kIgnoredLabel || (data[i] >= 0 && data[i] < vocabulary),
                   "label {} at token {} is outside the vocabulary of {}", data[i], i, vocabulary);
  }
}

// GPUs need larger blocks than the CPU, whose blocks stay in its caches.
constexpr int64_t kDefaultLogitsBytesOnGpus = int64_t{1} << 30;

int64_t rows_of_block(const at::Tensor& x, int64_t vocabulary, int64_t logits_bytes) {
  if (x.is_cuda() && logits_bytes == kDefaultLogitsBytes) logits_bytes = kDefaultLogitsBytesOnGpus;
  return linear_cross_entropy_block_tokens(x.size(0), vocabulary, x.scalar_type(), logits_bytes);
}

// Allocates logits [rows, vocabulary]. On a GPU, rows are a multiple of 64 elements apart: for
// other strides, matrix products take several times as long.
at::Tensor empty_logits(int64_t rows, int64_t vocabulary, const at::TensorOptions& options) {
  if (!options.device().is_cuda()) return at::empty({rows, vocabulary}, options);
  const int64_t stride = (vocabulary + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
  return at::empty({rows, stride}, options).narrow(1, 0, vocabulary);
}

bool keeps_logits(int64_t tokens, int64_t hidden, at::ScalarType type, int64_t rows_of_block) {
  const auto wide = static_cast<int64_t>(c10::elementSize(compute_type(type)));
  const auto narrow = static_cast<int64_t>(c10::elementSize(type));
  // Bytes per row of the weight. kept: the gradient of the logits of all tokens, and the weight
  // gradient that is computed from it. summed: the logits of one block, and the sum over blocks of
  // the weight gradient.
  const int64_t kept = (tokens + hidden) * narrow;
  const int64_t summed = rows_of_block * narrow + hidden * wide;
  return narrow < wide && kept <= summed;
}

using OptionalTensor = std::optional<at::Tensor>;

at::Tensor or_undefined(const OptionalTensor& given) {
  return given ? *given : at::Tensor();
}

// Computes the capped logits of x weight^T + bias.
void logits_out(const at::Tensor& logits, const at::Tensor& x, const at::Tensor& weight,
                const at::Tensor& bias, double soft_cap) {
  product_out(logits, x, weight.t(), bias);
  cap_logits(logits, soft_cap);
}

// Adds the sum over tokens of the logits' gradient to `sum`, if there is a bias.
void add_bias_gradient(const at::Tensor& logits_gradient, const at::Tensor& sum) {
  if (sum.defined()) sum.add_(sum_rows(logits_gradient));
}

at::Tensor zeros_for_bias(const at::Tensor& bias) {
  if (!bias.defined()) return {};
  return at::zeros(bias.sizes(), bias.options().dtype(compute_type(bias.scalar_type())));
}

// Gradients that are not needed are undefined. The weight gradient is in the compute type (fp64 for
// fp64, otherwise fp32); the backward pass scales it and rounds it once. If the logits are kept,
// their gradient is returned instead. The bias gradient is computed if x or the weight needs one.
using Results = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor,
                           at::Tensor>;  // loss, gradients of x, weight, logits, bias

// rows: number of tokens per block.
Results forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& labels,
                bool x_needs_gradient, bool weight_needs_gradient, int64_t rows,
                const at::Tensor& bias, double soft_cap, const LossesOfBlock& losses_of_block) {
  const int64_t tokens = x.size(0), vocabulary = weight.size(0);
  const at::ScalarType wide = compute_type(x.scalar_type());
  const bool kept = weight_needs_gradient && keeps_logits(tokens, x.size(1), x.scalar_type(), rows);
  if (kept) rows = tokens;
  at::Tensor loss = at::zeros({}, x.options().dtype(at::kDouble));
  at::Tensor x_gradient, weight_gradient;
  if (x_needs_gradient) x_gradient = at::empty_like(x, at::MemoryFormat::Contiguous);
  if (weight_needs_gradient && !kept) {
    weight_gradient = at::empty(weight.sizes(), weight.options().dtype(wide));
    if (tokens == 0) weight_gradient.zero_();
  }
  const at::Tensor bias_gradient =
      x_needs_gradient || weight_needs_gradient ? zeros_for_bias(bias) : at::Tensor();
  const at::Tensor memory = empty_logits(rows, vocabulary, x.options());
  for (int64_t begin = 0; begin < tokens; begin += rows) {
    const int64_t size = std::min(rows, tokens - begin);
    const at::Tensor x_block = x.narrow(0, begin, size);
    at::Tensor logits = memory.narrow(0, 0, size);
    logits_out(logits, x_block, weight, bias, soft_cap);
    loss += losses_of_block(logits, labels.narrow(0, begin, size),
                            x_needs_gradient || weight_needs_gradient);
    if (x_needs_gradient) {
      product_out(x_gradient.narrow(0, begin, size), logits, weight);
    }
    if (weight_gradient.defined())
      add_weight_gradient(logits, x_block, begin == 0, weight_gradient);
    add_bias_gradient(logits, bias_gradient);
  }
  return {loss.to(wide), x_gradient, weight_gradient, kept ? memory : at::Tensor(), bias_gradient};
}

Results linear_cross_entropy_rows(const at::Tensor& x, const at::Tensor& weight,
                                  const at::Tensor& labels, bool x_needs_gradient,
                                  bool weight_needs_gradient, int64_t logits_bytes,
                                  const OptionalTensor& bias, double soft_cap) {
  if (labels.is_cpu()) check_labels(labels, weight.size(0));
  return forward(x, weight, labels, x_needs_gradient, weight_needs_gradient,
                 rows_of_block(x, weight.size(0), logits_bytes), or_undefined(bias), soft_cap,
                 [=](const at::Tensor& logits, const at::Tensor& of_logits, bool gradient) {
                   return cross_entropy_of_rows(logits, of_logits, soft_cap, gradient);
                 });
}

void scale_copy_cpu(const at::Tensor& to, const at::Tensor& from, const at::Tensor& factor) {
  convert_copy(to.view(-1), from.view(-1), factor.item<double>());
}

void scale_copy_any(const at::Tensor& to, const at::Tensor& from, const at::Tensor& factor) {
  to.copy_(from.to(compute_type(from.scalar_type())) * factor);
}

void scale_copy_meta(const at::Tensor&, const at::Tensor&, const at::Tensor&) {}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def(
      "linear_cross_entropy(Tensor x, Tensor weight, Tensor labels, bool x_needs_gradient, "
      "bool weight_needs_gradient, int logits_bytes, Tensor? bias, float soft_cap) -> (Tensor "
      "loss, "
      "Tensor x_gradient, Tensor weight_gradient, Tensor logits_gradient, Tensor bias_gradient)");
  m.def("scale_copy_(Tensor(a!) to, Tensor from, Tensor factor) -> ()");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("linear_cross_entropy", linear_cross_entropy_rows);
  m.impl("scale_copy_", scale_copy_cpu);
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("linear_cross_entropy", linear_cross_entropy_rows);
  m.impl("scale_copy_", scale_copy_any);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("linear_cross_entropy", linear_cross_entropy_rows);
  m.impl("scale_copy_", scale_copy_meta);
}

// Returns memory for x rounded to `type`. With one thread on the CPU this is x's own memory:
// elements are written in order and are not wider than x's, so each is read before it is
// overwritten.
at::Tensor rounding_place(const at::Tensor& x, at::ScalarType type) {
  if (x.scalar_type() == type) return x;
  const bool serial = (x.is_cpu() || x.is_meta()) && at::get_num_threads() == 1;
  if (!serial) return at::empty(x.sizes(), x.options().dtype(type));
  return x.view(-1).view(type).narrow(0, 0, x.numel()).view(x.sizes());
}

// Returns x * factor, rounded to `type`, which is x's type or a narrower one. factor: a tensor with
// one element. May overwrite x.
at::Tensor scaled(const at::Tensor& x, const at::Tensor& factor, at::ScalarType type) {
  if (!x.defined()) return x;
  // Reads the factor only on the CPU: on meta it has no value, and reading it on a GPU would wait.
  // It is usually not 1.
  const bool is_one = factor.is_cpu() && factor.item<double>() == 1;
  if (is_one && x.scalar_type() == type) return x;
  static const auto op = find_operator<decltype(scale_copy_cpu)>("colossal::scale_copy_");
  const at::Tensor result = rounding_place(x, type);
  op.call(result, x, factor);
  return result;
}

// Returns the weight gradient, from the gradients of the logits and of the loss.
at::Tensor weight_gradient_from(const at::Tensor& logits_gradient, const at::Tensor& x,
                                const at::Tensor& loss_gradient) {
  if (x.size(0) == 0) return at::zeros({logits_gradient.size(1), x.size(1)}, x.options());
  if (x.is_cpu() || x.is_meta()) {
    const at::Tensor result = at::empty({logits_gradient.size(1), x.size(1)}, x.options());
    rounded_product(logits_gradient.t(), x, result, /*bias=*/{}, loss_gradient);
    return result;
  }
  return scaled(at::mm(logits_gradient.t(), x), loss_gradient, x.scalar_type());
}

struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& labels, const OptionalTensor& given_bias,
                            double soft_cap, bool x_needs_gradient, bool weight_needs_gradient,
                            const VocabularyShard* shard, int64_t logits_bytes) {
    const at::Tensor bias = *given_bias;
    static const auto op =
        find_operator<decltype(linear_cross_entropy_rows)>("colossal::linear_cross_entropy");
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [loss, x_gradient, weight_gradient, logits_gradient, bias_gradient] =
        shard ? colossal::ops::forward(x, weight, labels, x_needs_gradient, weight_needs_gradient,
                                       rows_of_block(x, shard->largest, logits_bytes), bias,
                                       soft_cap, losses_of_shard(*shard, soft_cap))
              : op.call(x, weight, labels, x_needs_gradient, weight_needs_gradient, logits_bytes,
                        bias, soft_cap);
    context->save_for_backward({x_gradient, weight_gradient, logits_gradient,
                                logits_gradient.defined() ? x : at::Tensor(), bias_gradient});
    context->saved_data["type"] = static_cast<int64_t>(x.scalar_type());
    context->saved_data["leaf"] = weight.is_leaf();
    return loss;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x_gradient = saved[0], &weight_gradient = saved[1];
    const at::Tensor &logits_gradient = saved[2], &x = saved[3];
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    COLOSSAL_CHECK(context->saved_data.emplace("spent", true).second,
                   "linear_cross_entropy has one backward pass: its gradients were made in place");
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    variable_list result(9);  // undefined for labels and for arguments that are not tensors
    result[0] = scaled(x_gradient, gradients[0], type);
    result[3] = scaled(saved[4], gradients[0], type);
    // A gradient that is passed on, such as to a gather of the weight, must come at once: without
    // it, autograd would pass on zeros now, and the gradient again later.
    DeferredGradients* const later =
        context->saved_data["leaf"].toBool() ? DeferredGradients::of_this_thread() : nullptr;
    if (!logits_gradient.defined()) {
      result[1] = scaled(weight_gradient, gradients[0], type);
    } else if (later) {
      later->defer_gradients(1, [logits_gradient, x, upstream = gradients[0]] {
        return variable_list{weight_gradient_from(logits_gradient, x, upstream)};
      });
    } else {
      result[1] = weight_gradient_from(logits_gradient, x, gradients[0]);
    }
    return result;
  }
};

void check_sizes(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& labels) {
  COLOSSAL_CHECK(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1) &&
                     labels.dim() == 1 && labels.size(0) == x.size(0),
                 "x {}, weight {}, labels {}", shape_text(x), shape_text(weight),
                 shape_text(labels));
  COLOSSAL_CHECK(x.scalar_type() == weight.scalar_type() && labels.scalar_type() == at::kLong,
                 "types: x {}, weight {}, labels {}", c10::toString(x.scalar_type()),
                 c10::toString(weight.scalar_type()), c10::toString(labels.scalar_type()));
}

// Returns x * scale. Scaling x, z and the bias scales the logits.
at::Tensor times(const at::Tensor& x, double scale) {
  return scale == 1 || !x.defined() ? x : x * scale;
}

// Returns whether a bias needs a gradient. It is computed only together with x's gradient.
bool needs_gradient(const at::Tensor& bias) {
  return bias.defined() && bias.requires_grad();
}

at::Tensor apply(const at::Tensor& given, const at::Tensor& weight, const at::Tensor& labels,
                 const LogitOptions& options, const VocabularyShard* shard, int64_t logits_bytes) {
  check_sizes(given, weight, labels);
  const at::Tensor x = times(given, options.scale), bias = times(options.bias, options.scale);
  COLOSSAL_CHECK(!options.up.defined(), "a low-rank adapter of a table that is not in blocks");
  COLOSSAL_CHECK(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0) &&
                                     bias.scalar_type() == weight.scalar_type()),
                 "weight {}, bias {}", shape_text(weight), shape_text(bias));
  const bool recording = at::GradMode::is_enabled();
  return LinearCrossEntropy::apply(x.contiguous(), weight.contiguous(), labels.contiguous(),
                                   OptionalTensor(bias), options.soft_cap,
                                   recording && (x.requires_grad() || needs_gradient(bias)),
                                   recording && weight.requires_grad(), shard, logits_bytes);
}

// Returns the labels as indices among the rows of these runs, one run after the other. Labels that
// are elsewhere or ignored get an index outside these rows.
at::Tensor labels_among(const at::Tensor& labels, const at::Tensor& ignored,
                        const std::vector<Range>& runs) {
  if (runs.size() == 1) return labels_from(labels, ignored, runs.front().begin);
  at::Tensor found = at::full_like(labels, -1);
  int64_t before = 0;
  for (const Range& run : runs) {
    const at::Tensor here = labels.ge(run.begin).bitwise_and_(labels.lt(run.end));
    found = (labels + (before - run.begin)).where(here, found);
    before += run.size();
  }
  return found;
}

// The place of a block in its table; an autograd node saves it in addition to its tensors.
struct BlockPlace {
  int64_t first_row;
  size_t index;
  const BlockCollectives* ranks;  // null: this rank has the whole block

  std::vector<Range> runs(const at::Tensor& weight) const {
    if (ranks) return ranks->rows(index);
    return {{first_row, first_row + weight.size(0)}};
  }
  at::Tensor all_of(const at::Tensor& weight) const {
    return ranks ? ranks->gather(weight, index) : weight;
  }

  void save(AutogradContext* context) const {
    context->saved_data["first_row"] = first_row;
    context->saved_data["index"] = static_cast<int64_t>(index);
    context->saved_data["ranks"] = reinterpret_cast<int64_t>(ranks);
  }
  static BlockPlace saved(AutogradContext* context) {
    auto& data = context->saved_data;
    return {.first_row = data["first_row"].toInt(),
            .index = static_cast<size_t>(data["index"].toInt()),
            .ranks = reinterpret_cast<const BlockCollectives*>(data["ranks"].toInt())};
  }
};

// The term that a low-rank adapter adds to the logits: z up^T. z: [tokens, rank]; up: [rows, rank].
// Both undefined: no adapter. Also holds the gradients of z and up.
struct LowRankLogits {
  at::Tensor z, up;

  void add_to(const at::Tensor& logits, Range tokens) const {
    if (up.defined())
      add_libtorch_product(logits, z.narrow(0, tokens.begin, tokens.size()), up.t());
  }
};

// Computes logits for one block of tokens after the other, and calls visit(tokens, logits) for
// each. A block has as many tokens as logits_bytes allows.
void for_logits(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                const LowRankLogits& low_rank, double soft_cap, int64_t logits_bytes,
                const std::function<void(Range tokens, const at::Tensor& logits)>& visit) {
  if (weight.size(0) == 0) return;
  const int64_t rows = rows_of_block(x, weight.size(0), logits_bytes);
  const at::Tensor memory = empty_logits(rows, weight.size(0), x.options());
  for (int64_t begin = 0; begin < x.size(0); begin += rows) {
    const int64_t size = std::min(rows, x.size(0) - begin);
    at::Tensor logits = memory.narrow(0, 0, size);
    product_out(logits, x.narrow(0, begin, size), weight.t(), bias);
    low_rank.add_to(logits, {begin, begin + size});
    cap_logits(logits, soft_cap);
    visit({begin, begin + size}, logits);
  }
}

// Returns zeros for the gradients of z and up, in the compute type; undefined without an adapter.
LowRankLogits zeros_for(const LowRankLogits& given) {
  if (!given.up.defined()) return {};
  const auto sums = given.up.options().dtype(compute_type(given.up.scalar_type()));
  return {at::zeros(given.z.sizes(), sums), at::zeros(given.up.sizes(), sums)};
}

// Writes the gradient of z for these tokens, and adds their term to the gradient of up.
void add_gradients(const LowRankLogits& of, const at::Tensor& logits_gradient, Range tokens,
                   const LowRankLogits& gradients) {
  if (!of.up.defined()) return;
  const auto wide = [&](const at::Tensor& x) { return x.to(gradients.up.scalar_type()); };
  const at::Tensor gradient = wide(logits_gradient);
  gradients.z.narrow(0, tokens.begin, tokens.size()).copy_(at::mm(gradient, wide(of.up)));
  gradients.up.addmm_(gradient.t(), wide(of.z.narrow(0, tokens.begin, tokens.size())));
}

// Merges the softmax statistics (VocabularyShard::combine) of one block of rows into `before`,
// those of the earlier blocks. The "gradient" that the backward pass sends along the statistics is
// not their gradient, but what each block needs to compute the gradient of its logits: rows 0 and 1
// are the largest logit and the sum over the whole vocabulary, row 2 is the gradient of each
// token's loss.
struct BlockStatistics : torch::autograd::Function<BlockStatistics> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& before, const at::Tensor& x,
                            const at::Tensor& part, const at::Tensor& labels,
                            const OptionalTensor& given_bias, const OptionalTensor& z,
                            const OptionalTensor& up, double soft_cap, const BlockPlace& place,
                            bool x_needs_gradient, bool weight_needs_gradient,
                            int64_t logits_bytes) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor bias = *given_bias;
    const LowRankLogits low_rank{*z, *up};
    context->save_for_backward({x, part, labels, bias, low_rank.z, low_rank.up});
    context->saved_data["soft_cap"] = soft_cap;
    place.save(context);
    context->saved_data["x_needs_gradient"] = x_needs_gradient;
    context->saved_data["weight_needs_gradient"] = weight_needs_gradient;
    context->saved_data["logits_bytes"] = logits_bytes;
    at::Tensor result = before.clone();
    const at::Tensor weight = place.all_of(part);
    const at::Tensor here = labels_among(labels, labels.eq(kIgnoredLabel), place.runs(weight));
    for_logits(
        x, weight, bias, low_rank, soft_cap, logits_bytes,
        [&](Range tokens, const at::Tensor& logits) {
          const at::Tensor found =
              softmax_statistics(logits, here.narrow(0, tokens.begin, tokens.size()));
          const at::Tensor sum = result.narrow(1, tokens.begin, tokens.size());
          const at::Tensor largest = at::maximum(sum[0], found[0]);
          sum[1].mul_((sum[0] - largest).exp_()).addcmul_(found[1], (found[0] - largest).exp_());
          sum[2].add_(found[2]);
          sum[0].copy_(largest);
        });
    return result;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto& data = context->saved_data;
    const bool x_needs_gradient = data["x_needs_gradient"].toBool();
    const bool weight_needs_gradient = data["weight_needs_gradient"].toBool();
    const BlockPlace place = BlockPlace::saved(context);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &part = saved[1], &labels = saved[2], &bias = saved[3];
    const LowRankLogits low_rank{saved[4], saved[5]}, of_low_rank = zeros_for(low_rank);
    const double soft_cap = data["soft_cap"].toDouble();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor& whole = gradients[0];
    const at::Tensor weight = place.all_of(part);
    const at::Tensor ignored = labels.eq(kIgnoredLabel);
    const at::Tensor here = labels_among(labels, ignored, place.runs(weight));
    at::Tensor x_gradient, weight_gradient;
    at::Tensor bias_gradient = zeros_for_bias(bias);
    if (x_needs_gradient) x_gradient = at::empty_like(x);
    if (weight_needs_gradient) {
      weight_gradient = at::empty(weight.sizes(), weight.options().dtype(whole.scalar_type()));
    }
    const auto add = [&](Range tokens, const at::Tensor& logits) {
      const auto of = [&](const at::Tensor& tensor, int64_t dim = 0) {
        return tensor.narrow(dim, tokens.begin, tokens.size());
      };
      cross_entropy_gradient(logits, of(here), of(ignored), of(whole, 1), soft_cap);
      logits.mul_(of(whole[2]).unsqueeze(1));
      add_bias_gradient(logits, bias_gradient);
      add_gradients(low_rank, logits, tokens, of_low_rank);
      if (x_needs_gradient) {
        product_out(of(x_gradient), logits, weight);
      }
      if (weight_needs_gradient) {
        add_weight_gradient(logits, of(x), tokens.begin == 0, weight_gradient);
      }
    };
    for_logits(x, weight, bias, low_rank, soft_cap, data["logits_bytes"].toInt(), add);
    if (x.size(0) == 0 || weight.size(0) == 0) {  // for_logits() did not call add()
      x_gradient = at::Tensor();
      if (weight_needs_gradient) weight_gradient = at::zeros_like(weight);
    } else {
      const auto narrow = [&](at::Tensor& gradient) {
        if (gradient.defined()) gradient = gradient.to(x.scalar_type());
      };
      narrow(weight_gradient);
      narrow(bias_gradient);
    }
    if (weight_needs_gradient && place.ranks) {
      weight_gradient =
          place.ranks->reduce_scatter_gradient(weight_gradient, part.sizes(), place.index);
    }
    if (bias_gradient.defined()) bias_gradient = bias_gradient.to(x.scalar_type());
    const auto rounded = [&](const at::Tensor& gradient) {
      return gradient.defined() ? gradient.to(x.scalar_type()) : gradient;
    };
    return {whole,
            x_gradient,
            weight_gradient,
            {},
            bias_gradient,
            rounded(of_low_rank.z),
            rounded(of_low_rank.up),
            {},
            {},
            {},
            {},
            {}};
  }
};

using Combine = std::function<void(const at::Tensor&)>;

// Returns the log-probabilities of the labels, [tokens]; 0 for ignored labels. statistics: over all
// rows of this rank. The backward pass returns what BlockStatistics::backward() expects.
struct LogProbabilities : torch::autograd::Function<LogProbabilities> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& statistics,
                            const at::Tensor& labels, const Combine* combine) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor whole = statistics.clone();
    if (*combine) (*combine)(whole);
    context->save_for_backward({whole});
    return losses_of(whole).neg_().masked_fill_(labels.eq(kIgnoredLabel), 0);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor whole = context->get_saved_variables()[0].clone();
    whole.select(0, 2).copy_(gradients[0].neg());
    return {whole, {}, {}};
  }
};

// Returns the rows of `all` that are in these runs. all: a bias or other rows, whose first row has
// index `begin` in the whole vocabulary.
at::Tensor rows_among(const at::Tensor& all, const std::vector<Range>& runs, int64_t begin) {
  if (!all.defined()) return {};
  std::vector<at::Tensor> parts;
  for (const Range& run : runs) parts.push_back(all.narrow(0, run.begin - begin, run.size()));
  return at::cat(parts);
}

}  // namespace

at::Tensor logits_from_products(const at::Tensor& products, const LogitOptions& options) {
  at::Tensor logits = options.bias.defined() ? products + options.bias : products;
  if (options.up.defined()) logits = logits + at::matmul(options.z, options.up.t());
  logits = times(logits, options.scale);
  if (options.soft_cap == 0) return logits;
  return (logits / options.soft_cap).tanh() * options.soft_cap;
}

at::Tensor linear_log_probabilities(const at::Tensor& x, const ForEachBlock& table,
                                    const at::Tensor& labels, int64_t vocabulary,
                                    const Combine& combine, const BlockCollectives* ranks,
                                    const LogitOptions& options, int64_t bias_begin,
                                    int64_t logits_bytes) {
  const at::Tensor rows = times(x, options.scale).contiguous(), flat_labels = labels.contiguous();
  const at::Tensor bias = times(options.bias, options.scale);
  const at::Tensor z = times(options.z, options.scale);
  if (labels.is_cpu()) check_labels(flat_labels, vocabulary);
  const auto wide = x.options().dtype(compute_type(x.scalar_type()));
  // The statistics over no rows.
  at::Tensor statistics = at::zeros({3, x.size(0)}, wide.requires_grad(false));
  statistics[0].fill_(-std::numeric_limits<double>::infinity());
  size_t index = 0;
  table([&](const at::Tensor& weight, int64_t begin) {
    if (!ranks) check_sizes(rows, weight, flat_labels);
    const bool recording = at::GradMode::is_enabled();
    const BlockPlace place{.first_row = begin, .index = index++, .ranks = ranks};
    statistics = BlockStatistics::apply(
        statistics, rows, weight, flat_labels,
        OptionalTensor(rows_among(bias, place.runs(weight), bias_begin)), OptionalTensor(z),
        OptionalTensor(rows_among(options.up, place.runs(weight), bias_begin)), options.soft_cap,
        place, recording && (rows.requires_grad() || needs_gradient(bias)),
        recording && weight.requires_grad(), logits_bytes);
  });
  return LogProbabilities::apply(statistics, flat_labels, &combine);
}

at::Tensor linear_cross_entropy(const at::Tensor& x, const ForEachBlock& table,
                                const at::Tensor& labels, int64_t vocabulary,
                                const Combine& combine, const BlockCollectives* ranks,
                                const LogitOptions& options, int64_t bias_begin,
                                int64_t logits_bytes) {
  const at::Tensor found = linear_log_probabilities(x, table, labels, vocabulary, combine, ranks,
                                                    options, bias_begin, logits_bytes);
  return found.sum(at::kDouble).neg().to(found.scalar_type());
}

at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& labels, const LogitOptions& options,
                                int64_t logits_bytes) {
  return apply(x, weight, labels, options, nullptr, logits_bytes);
}

at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& labels, const VocabularyShard& shard,
                                const LogitOptions& options, int64_t logits_bytes) {
  if (labels.is_cpu()) check_labels(labels.contiguous(), shard.vocabulary);
  return apply(x, weight, labels, options, &shard, logits_bytes);
}

int64_t linear_cross_entropy_block_tokens(int64_t tokens, int64_t vocabulary, at::ScalarType type,
                                          int64_t logits_bytes) {
  const int64_t row_bytes = vocabulary * static_cast<int64_t>(c10::elementSize(type));
  const int64_t fitting = std::max<int64_t>(1, logits_bytes / row_bytes);
  if (tokens <= fitting) return std::max<int64_t>(1, tokens);
  // Blocks get about equal sizes: a short last block would run at a lower rate.
  const int64_t blocks = (tokens + fitting - 1) / fitting;
  const int64_t even = (tokens + blocks - 1) / blocks;
  const int64_t rounded = (even + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
  return std::min(fitting, rounded);
}

bool linear_cross_entropy_keeps_logits(int64_t tokens, int64_t hidden, int64_t vocabulary,
                                       at::ScalarType type, int64_t logits_bytes) {
  return keeps_logits(tokens, hidden, type,
                      linear_cross_entropy_block_tokens(tokens, vocabulary, type, logits_bytes));
}

}  // namespace colossal::ops
