// How fast this machine multiplies matrices: what utilisation is measured against.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>

namespace colossal::ops {

// FLOP/s of the best product of [1024, 768] by [768, 3072] within `length` (at least 3 products, of
// fewer rows where those would take longer: a type that the machine only emulates), on the calling
// thread's compute threads. Of a training step's products this size is the fastest.
double measure_gemm_rate(at::ScalarType type, std::chrono::milliseconds length,
                         at::Device device = at::kCPU);

}  // namespace colossal::ops
