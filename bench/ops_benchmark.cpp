// Our operators and LibTorch's on the same tensors, with Google Benchmark. A name is
// OPERATOR/SHAPE/TYPE/WHOSE, WHOSE being ours or libtorch; bench/ops.py pairs them.
// Forward and backward are timed together; of AdamW, an update.
// One thread, as a rank has by default when there are as many ranks as cores;
// COLOSSAL_BENCH_THREADS sets another number.
#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>
#include <map>
#include <numeric>

#include "colossal/base/cpu_features.h"
#include "colossal/ops/activation.h"
#include "colossal/ops/attention/attention.h"
#include "colossal/ops/attention/rotary.h"
#include "colossal/ops/dropout.h"
#include "colossal/ops/loss/linear_cross_entropy.h"
#include "colossal/ops/norm/norm.h"
#include "colossal/ops/optimizer_kernels.h"
#include "colossal/ops/product/fused_linear.h"

namespace colossal {
namespace {

using at::Tensor;

enum class Whose { ours, libtorch };

const char* name_of(Whose whose) {
  return whose == Whose::ours ? "ours" : "libtorch";
}

const char* name_of(at::ScalarType type) {
  return type == at::kBFloat16 ? "bf16" : "fp32";
}

// Normal numbers that bf16 holds exactly, so that all types compute with the same ones.
Tensor random_values(at::IntArrayRef sizes) {
  return at::randn(sizes, at::kFloat).to(at::kBFloat16);
}

Tensor leaf(const Tensor& values, at::ScalarType type) {
  return values.to(type, /*non_blocking=*/false, /*copy=*/true).requires_grad_(true);
}

// What is differentiated, and by what.
struct Problem {
  std::vector<Tensor> inputs;
  std::function<std::vector<Tensor>()> forward;
  std::vector<Tensor> output_gradients;  // an undefined one: the output is a scalar
};

std::vector<Tensor> forward_and_backward(const Problem& problem) {
  const std::vector<Tensor> outputs = problem.forward();
  std::vector<Tensor> results =
      torch::autograd::grad(outputs, problem.inputs, problem.output_gradients);
  for (const Tensor& output : outputs) results.push_back(output.detach());
  return results;
}

void time_problem(benchmark::State& state, const Problem& problem) {
  forward_and_backward(problem);
  for (auto _ : state) benchmark::DoNotOptimize(forward_and_backward(problem));
}

// Wall time: an operator may use several threads.
void add(const std::string& name, const std::function<void(benchmark::State&)>& run) {
  benchmark::RegisterBenchmark(name.c_str(), run)->UseRealTime()->Unit(benchmark::kMicrosecond);
}

// name: OPERATOR/SHAPE. `make` is called when the benchmark runs, so that one problem's tensors
// exist at a time.
void add_differentiated(const std::string& name, at::ScalarType type,
                        const std::function<Problem(Whose, at::ScalarType)>& make) {
  for (const Whose whose : {Whose::libtorch, Whose::ours}) {
    const std::string full_name = fmt::format("{}/{}/{}", name, name_of(type), name_of(whose));
    add(full_name, [=](benchmark::State& state) { time_problem(state, make(whose, type)); });
  }
}

struct AttentionShape {
  int64_t batch, heads, sequence, head_size;
};

std::string text(const AttentionShape& shape) {
  return fmt::format("{}x{}x{}x{}", shape.batch, shape.heads, shape.sequence, shape.head_size);
}

// Query, key, value and the output's gradient, [batch, heads, sequence, head_size] as views of
// [batch, sequence, heads, head_size], which is how a model makes them.
std::vector<Tensor> attention_values(const AttentionShape& shape) {
  std::vector<Tensor> values;
  for (int i = 0; i < 4; ++i) {
    values.push_back(random_values({shape.batch, shape.sequence, shape.heads, shape.head_size}));
  }
  return values;
}

// Causal; window 0: none.
Problem attention_problem(const std::vector<Tensor>& values, Whose whose, at::ScalarType type,
                          int64_t window = 0) {
  Problem problem;
  for (int i = 0; i < 3; ++i) problem.inputs.push_back(leaf(values[i], type));
  problem.output_gradients = {values[3].to(type).transpose(1, 2)};
  Tensor mask;  // LibTorch has no windows
  if (window > 0 && whose == Whose::libtorch) {
    const int64_t sequence = values[0].size(1);
    mask = at::ones({sequence, sequence}, at::kBool).tril().triu(1 - window);
  }
  problem.forward = [=, inputs = problem.inputs]() -> std::vector<Tensor> {
    const Tensor query = inputs[0].transpose(1, 2);
    const Tensor key = inputs[1].transpose(1, 2);
    const Tensor value = inputs[2].transpose(1, 2);
    if (whose == Whose::ours) return {ops::attention(query, key, value, {.window = window})};
    const std::optional<Tensor> given = mask.defined() ? std::optional(mask) : std::nullopt;
    return {at::scaled_dot_product_attention(query, key, value, given, 0, /*is_causal=*/!given)};
  };
  return problem;
}

// Root mean square of the error of outputs and gradients, over that of the exact values.
double relative_error(const std::vector<Tensor>& results, const std::vector<Tensor>& exact) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    error += (results[i].to(at::kDouble) - exact[i]).square().sum().item<double>();
    size += exact[i].square().sum().item<double>();
  }
  return std::sqrt(error / size);
}

void add_attention(const AttentionShape& shape, at::ScalarType type) {
  for (const Whose whose : {Whose::libtorch, Whose::ours}) {
    const std::string name =
        fmt::format("attention/{}/{}/{}", text(shape), name_of(type), name_of(whose));
    add(name, [=](benchmark::State& state) {
      static std::map<std::string, std::pair<std::vector<Tensor>, std::vector<Tensor>>> known;
      auto& [values, exact] = known[text(shape)];
      if (exact.empty()) {
        values = attention_values(shape);
        exact = forward_and_backward(attention_problem(values, Whose::libtorch, at::kDouble));
      }
      const Problem problem = attention_problem(values, whose, type);
      state.counters["error"] = relative_error(forward_and_backward(problem), exact);
      time_problem(state, problem);
    });
  }
}

void add_windowed_attention(const AttentionShape& shape, int64_t window, at::ScalarType type) {
  add_differentiated(fmt::format("attention_window{}/{}", window, text(shape)), type,
                     [=](Whose whose, at::ScalarType type) {
                       return attention_problem(attention_values(shape), whose, type, window);
                     });
}

void add_gelu(int64_t rows, int64_t features, at::ScalarType type) {
  const auto make = [=](Whose whose, at::ScalarType type) {
    const Tensor x = leaf(random_values({rows, features}), type);
    const auto forward = [=] {
      return std::vector{whose == Whose::ours ? ops::activate(x, ops::Activation::gelu_tanh)
                                              : at::gelu(x, "tanh")};
    };
    return Problem{{x}, forward, {random_values({rows, features}).to(type)}};
  };
  add_differentiated(fmt::format("gelu/{}x{}", rows, features), type, make);
}

void add_gated(const char* name, ops::Activation kind, int64_t rows, int64_t features,
               at::ScalarType type) {
  const auto make = [=](Whose whose, at::ScalarType type) {
    const Tensor x = leaf(random_values({rows, 2 * features}), type);
    const auto forward = [=]() -> std::vector<Tensor> {
      if (whose == Whose::ours) return {ops::activate_gate(x, kind)};
      const auto parts = x.chunk(2, -1);
      const bool silu = kind == ops::Activation::silu;
      return {(silu ? at::silu(parts[0]) : at::gelu(parts[0], "tanh")) * parts[1]};
    };
    return Problem{{x}, forward, {random_values({rows, features}).to(type)}};
  };
  add_differentiated(fmt::format("{}/{}x{}", name, rows, features), type, make);
}

// All heads turned, [batch, sequence, heads, head_size]; LibTorch as transformers' Llama does it,
// from tables that are there. Ours makes them, in each direction.
void add_rotary(const AttentionShape& shape, at::ScalarType type) {
  const auto make = [=](Whose whose, at::ScalarType type) {
    const std::vector<int64_t> sizes{shape.batch, shape.sequence, shape.heads, shape.head_size};
    const Tensor x = leaf(random_values(sizes), type);
    const Tensor positions = at::arange(shape.sequence);
    const Tensor frequencies = ops::rotary_frequencies({.base = 1e4}, shape.head_size);
    const Tensor angles = (positions.unsqueeze(-1) * frequencies).repeat({1, 2}).unsqueeze(1);
    const Tensor cosines = angles.cos().to(type), sines = angles.sin().to(type);
    const auto forward = [=]() -> std::vector<Tensor> {
      if (whose == Whose::ours) return {ops::rotary(x, positions, frequencies, shape.heads)};
      const auto halves = x.chunk(2, -1);
      return {x * cosines + at::cat({-halves[1], halves[0]}, -1) * sines};
    };
    return Problem{{x}, forward, {random_values(sizes).to(type)}};
  };
  add_differentiated("rotary/" + text(shape), type, make);
}

enum class NormKind { layer, rms };

// The norm of x, or, with a branch, of its sum with x, which the
// residual stream then takes further.
void add_norm(NormKind kind, bool with_branch, int64_t rows, int64_t features,
              at::ScalarType type) {
  const bool layer = kind == NormKind::layer;
  const auto make = [=](Whose whose, at::ScalarType type) {
    const auto random_leaf = [&](at::IntArrayRef sizes) {
      return leaf(random_values(sizes), type);
    };
    const Tensor x = random_leaf({rows, features}), branch = random_leaf({rows, features});
    const Tensor weight = random_leaf({features}), bias = random_leaf({features});
    const auto ours = [=] {
      if (!with_branch) {
        return std::vector{layer ? ops::layer_norm(x, weight, bias, 1e-5)
                                 : ops::rms_norm(x, weight, 1e-5)};
      }
      const auto [sum, norm] = layer ? ops::add_layer_norm(x, branch, weight, bias, 1e-5)
                                     : ops::add_rms_norm(x, branch, weight, 1e-5);
      return std::vector{sum, norm};
    };
    const auto libtorch = [=] {
      const Tensor sum = with_branch ? x + branch : x;
      const Tensor norm = layer ? at::layer_norm(sum, {features}, weight, bias, 1e-5)
                                : at::rms_norm(sum, {features}, weight, 1e-5);
      return with_branch ? std::vector{sum, norm} : std::vector{norm};
    };
    Problem problem{{x, weight}, libtorch, {random_values({rows, features}).to(type)}};
    if (whose == Whose::ours) problem.forward = ours;
    if (layer) problem.inputs.push_back(bias);
    if (with_branch) {
      problem.inputs.push_back(branch);
      problem.output_gradients.push_back(random_values({rows, features}).to(type));
    }
    return problem;
  };
  const char* const name = layer ? "layer_norm" : "rms_norm";
  add_differentiated(fmt::format("{}{}/{}x{}", with_branch ? "add_" : "", name, rows, features),
                     type, make);
}

void add_dropout(int64_t batch, int64_t sequence, int64_t channels, at::ScalarType type) {
  const auto make = [=](Whose whose, at::ScalarType type) {
    const Tensor x = leaf(random_values({batch, sequence, channels}), type);
    std::vector<int64_t> samples(batch);
    std::iota(samples.begin(), samples.end(), 0);
    const Tensor positions = at::arange(sequence);
    const auto forward = [=]() -> std::vector<Tensor> {
      if (whose == Whose::libtorch) return {at::dropout(x, 0.1, /*train=*/true)};
      return {ops::dropout(x, 0.1, random_key(0, 0, "bench"), samples, positions)};
    };
    return Problem{{x}, forward, {random_values({batch, sequence, channels}).to(type)}};
  };
  add_differentiated(fmt::format("dropout/{}x{}x{}", batch, sequence, channels), type, make);
}

// y = x w^T + bias, and the gradients of all three.
void add_linear(int64_t tokens, int64_t in, int64_t out, at::ScalarType type) {
  const auto make = [=](Whose whose, at::ScalarType type) {
    const Tensor x = leaf(random_values({tokens, in}), type);
    const Tensor weight = leaf(random_values({out, in}) * 0.02, type);
    const Tensor bias = leaf(random_values({out}), type);
    const auto forward = [=]() -> std::vector<Tensor> {
      if (whose == Whose::ours) return {ops::fused_linear(x, {{weight}, {bias}})};
      return {at::linear(x, weight, bias)};
    };
    return Problem{{x, weight, bias}, forward, {random_values({tokens, out}).to(type)}};
  };
  add_differentiated(fmt::format("linear/{}x{}x{}", tokens, in, out), type, make);
}

void add_linear_cross_entropy(int64_t tokens, int64_t hidden, int64_t vocabulary,
                              at::ScalarType type) {
  const auto make = [=](Whose whose, at::ScalarType type) {
    const Tensor x = leaf(random_values({tokens, hidden}), type);
    const Tensor weight = leaf(random_values({vocabulary, hidden}) * 0.02, type);
    const Tensor labels = at::randint(vocabulary, {tokens}, at::kLong);
    const auto forward = [=]() -> std::vector<Tensor> {
      if (whose == Whose::ours) return {ops::linear_cross_entropy(x, weight, labels)};
      return {at::cross_entropy_loss(at::linear(x, weight).to(at::kFloat), labels, {},
                                     at::Reduction::Sum)};
    };
    return Problem{{x, weight}, forward, {Tensor()}};
  };
  add_differentiated(fmt::format("linear_cross_entropy/{}x{}x{}", tokens, hidden, vocabulary), type,
                     make);
}

// One update of fp32 masters from gradients of the given type. With bf16, LibTorch needs the
// gradients converted before and the weights rounded after.
void add_adamw(int64_t count, at::ScalarType type) {
  for (const Whose whose : {Whose::libtorch, Whose::ours}) {
    const std::string name = fmt::format("adamw/{}/{}/{}", count, name_of(type), name_of(whose));
    add(name, [=](benchmark::State& state) {
      const bool narrow = type == at::kBFloat16;
      const Tensor master = at::randn({count}, at::kFloat);
      const Tensor working = narrow ? master.to(type) : Tensor();
      const Tensor first = at::zeros({count}, at::kFloat);
      const Tensor second = at::zeros({count}, at::kFloat);
      const Tensor gradient = at::randn({count}, at::kFloat).to(type);
      const Tensor update = at::ones({}, at::kFloat);
      const auto step = [&] {
        if (whose == Whose::ours) {
          ops::adamw(master, working, first, second, gradient,
                     {.learning_rate = 1e-4, .weight_decay = 0.1});
          return;
        }
        at::_fused_adamw_({master}, {gradient.to(at::kFloat)}, {first}, {second}, {}, {update},
                          1e-4, 0.9, 0.999, 0.1, 1e-8, /*amsgrad=*/false, /*maximize=*/false);
        if (narrow) working.copy_(master);
      };
      step();
      for (auto _ : state) step();
    });
  }
}

void add_all(at::ScalarType type) {
  for (const int64_t count : {1 << 18, 1 << 25}) add_adamw(count, type);
  // Of a rank's batch at the reference sizes: [8, 256, 256] and [2, 512, 768].
  add_gelu(8 * 256, 4 * 256, type);
  add_gelu(2 * 512, 4 * 768, type);
  for (const int64_t width : {256, 768}) {
    const int64_t rows = width == 256 ? 8 * 256 : 2 * 512;
    add_gated("swiglu", ops::Activation::silu, rows, 4 * width, type);
    add_gated("geglu", ops::Activation::gelu_tanh, rows, 4 * width, type);
  }
  add_rotary({8, 4, 256, 64}, type);
  add_rotary({2, 12, 512, 64}, type);
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    for (const bool with_branch : {false, true}) {
      add_norm(kind, with_branch, 8 * 256, 256, type);
      add_norm(kind, with_branch, 2 * 512, 768, type);
    }
  }
  add_dropout(8, 256, 256, type);
  add_dropout(2, 512, 768, type);
  // Products in bf16 without instructions for them take minutes.
  if (type == at::kBFloat16 && !has_bf16_instructions()) return;
  for (const auto& [tokens, hidden] : {std::pair<int64_t, int64_t>{8 * 256, 256}, {2 * 512, 768}}) {
    add_linear(tokens, hidden, 3 * hidden, type);
    add_linear(tokens, hidden, 4 * hidden, type);
    add_linear(tokens, 4 * hidden, hidden, type);
  }
  add_linear_cross_entropy(8 * 256, 256, 512, type);
  add_linear_cross_entropy(2 * 512, 768, 50304, type);
  add_attention({8, 4, 256, 64}, type);
  add_attention({2, 12, 512, 64}, type);
  add_attention({1, 8, 4096, 128}, type);
  add_windowed_attention({1, 8, 4096, 128}, 512, type);
}

}  // namespace
}  // namespace colossal

int main(int argc, char** argv) {
  const char* threads = std::getenv("COLOSSAL_BENCH_THREADS");
  at::set_num_threads(threads ? std::atoi(threads) : 1);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) colossal::add_all(type);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
