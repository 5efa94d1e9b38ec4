// Measures the machine's GEMM rate, the denominator of reported utilization.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>

namespace colossal::ops {

// Returns the best FLOP/s of products of [1024, 768] by [768, 3072] measured within `length`, on
// the calling thread's compute threads. Makes at least 3 products; uses fewer rows if the machine
// only emulates the type. This shape is the fastest of a training step's products.
double measure_gemm_rate(at::ScalarType type, std::chrono::milliseconds length,
                         at::Device device = at::kCPU);

}  // namespace colossal::ops
