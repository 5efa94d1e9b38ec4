// For optimizers written with LibTorch's operators: the tensors of a piece, block by block.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/optim/optimizer.h"

namespace colossal::optim {

// A block of a piece, with all tensors in the type of the masters.
struct Elements {
  at::Tensor weight;              // overwrite it in place
  at::Tensor gradient;            // multiplied by UpdateScalars::gradient_scale; a copy
  std::vector<at::Tensor> state;  // overwrite them in place
};

// Calls visit() for blocks of consecutive elements that together are the piece, and then writes
// weights, working weights and states back. On a CPU, blocks fit its caches, and several threads
// visit them; elsewhere the whole piece is one block.
void update_elements(const Piece& piece, const UpdateScalars& scalars,
                     const std::function<void(const Elements& block)>& visit);

// Returns the gradient of the piece in the type of its masters, multiplied by gradient_scale.
at::Tensor scaled_gradient(const Piece& piece, const UpdateScalars& scalars);

// weight <- weight * (1 - learning_rate * weight_decay): decoupled weight decay (I. Loshchilov,
// F. Hutter, ICLR 2019).
void decay(const at::Tensor& weight, const UpdateScalars& scalars);

// Sets piece.working, if it is defined, to the masters.
void write_working(const Piece& piece);

// buffer <- momentum * buffer + direction. Returns the buffer or, with `nesterov`, direction +
// momentum * buffer; may overwrite `direction`.
at::Tensor with_momentum(const at::Tensor& buffer, const at::Tensor& direction, double momentum,
                         bool nesterov);

// average <- beta * average + (1 - beta) * value
void move_average(const at::Tensor& average, const at::Tensor& value, double beta);

// Returns 1 - beta^update, the correction of an average that began with zeros.
double bias_correction(double beta, const UpdateScalars& scalars);

}  // namespace colossal::optim
