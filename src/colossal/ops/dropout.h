// Dropout with a counter-based mask: whether an element is dropped depends on the element's global
// coordinates, not on how ranks shard the tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "colossal/base/random.h"

namespace colossal::ops {

// Returns a new tensor: x with each element set to 0 with probability `probability`, and the other
// elements divided by 1 - probability. Returns x itself if probability is 0. Does not change x.
// Differentiable.
//
//   x              [batch, sequence, channels]. With more dims, all dims after the second count as
//                  one dim of channels
//   key            random stream; must differ between layers and steps
//   sample_ids     [batch]: global sample ids
//   positions      int64 [sequence], or [batch, sequence]: positions in the sequence, below 2^32
//   channel_begin  global index of x's first channel
//
// Whether an element is dropped is a pure function of (key, sample id, position, channel). A rank
// that holds a slice of a tensor therefore gets that slice of the whole tensor's mask. The mask is
// not saved; the backward pass generates it again. Throws InternalError if sizes do not match or if
// probability is not in [0, 1].
at::Tensor dropout(const at::Tensor& x, double probability, RandomKey key,
                   std::span<const int64_t> sample_ids, const at::Tensor& positions,
                   int64_t channel_begin = 0);

}  // namespace colossal::ops
