// Measures how fast this machine multiplies matrices: utilisation is a share of that.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>

namespace colossal::ops {

// Returns the FLOP/s of the best product of [1024, 768] by [768, 3072] within `length`, on the
// calling thread's compute threads. It makes at least 3 products, of fewer rows if the machine only
// emulates the type. Of a training step's products this size is the fastest.
double measure_gemm_rate(at::ScalarType type, std::chrono::milliseconds length,
                         at::Device device = at::kCPU);

}  // namespace colossal::ops
