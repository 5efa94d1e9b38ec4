#include "colossal/optim/elements.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "colossal/ops/optimizer_kernels.h"
#include "colossal/ops/parallel_for.h"

namespace colossal::optim {
namespace {

// Elements of a block on a CPU: few enough for a core's cache, so many that calls cost little.
constexpr int64_t kBlock = 1 << 15;

Piece block_of(const Piece& piece, int64_t begin, int64_t count) {
  Piece block;
  block.master = piece.master.narrow(0, begin, count);
  if (piece.working.defined()) block.working = piece.working.narrow(0, begin, count);
  block.gradient = piece.gradient.narrow(0, begin, count);
  for (const at::Tensor& state : piece.state) block.state.push_back(state.narrow(0, begin, count));
  return block;
}

void update_block(const Piece& block, const UpdateScalars& scalars,
                  const std::function<void(const Elements&)>& visit) {
  const at::NoGradGuard no_grad;
  const auto type = block.master.scalar_type();
  Elements elements{block.master, scaled_gradient(block, scalars), {}};
  for (const at::Tensor& state : block.state) elements.state.push_back(state.to(type));
  visit(elements);
  for (size_t i = 0; i < block.state.size(); ++i) {
    if (!elements.state[i].is_same(block.state[i])) block.state[i].copy_(elements.state[i]);
  }
  write_working(block);
}

}  // namespace

void update_elements(const Piece& piece, const UpdateScalars& scalars,
                     const std::function<void(const Elements&)>& visit) {
  const int64_t count = piece.master.numel();
  if (!piece.master.is_cpu()) return update_block(piece, scalars, visit);
  ops::parallel_for(0, (count + kBlock - 1) / kBlock, 1, [&](int64_t first, int64_t last) {
    for (int64_t begin = first * kBlock; begin < std::min(count, last * kBlock); begin += kBlock) {
      const int64_t size = std::min(kBlock, count - begin);
      update_block(block_of(piece, begin, size), scalars, visit);
    }
  });
}

at::Tensor scaled_gradient(const Piece& piece, const UpdateScalars& scalars) {
  return piece.gradient.to(piece.master.scalar_type()).mul(scalars.gradient_scale);
}

void decay(const at::Tensor& weight, const UpdateScalars& scalars) {
  if (scalars.weight_decay != 0) weight.mul_(1 - scalars.learning_rate * scalars.weight_decay);
}

void write_working(const Piece& piece) {
  if (piece.working.defined()) ops::convert_copy(piece.working, piece.master);
}

at::Tensor with_momentum(const at::Tensor& buffer, const at::Tensor& direction, double momentum,
                         bool nesterov) {
  buffer.mul_(momentum).add_(direction);
  return nesterov ? direction.add_(buffer, momentum) : buffer;
}

void move_average(const at::Tensor& average, const at::Tensor& value, double beta) {
  average.mul_(beta).add_(value, 1 - beta);
}

double bias_correction(double beta, const UpdateScalars& scalars) {
  return 1 - std::pow(beta, static_cast<double>(scalars.update));
}

}  // namespace colossal::optim
