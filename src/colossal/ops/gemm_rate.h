// Measures the rate of matrix products on this machine. Reported utilization is relative to it.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>

namespace colossal::ops {

// Returns the highest rate, in FLOP/s, among products of [1024, 768] by [768, 3072], which it
// repeats for `length`, but at least 3 times. If products are too slow for that, as with a type
// that the machine only emulates, uses fewer rows. On the CPU, computes with at::get_num_threads()
// threads. Of the shapes of products in a training step, this one has the highest rate.
double measure_gemm_rate(at::ScalarType type, std::chrono::milliseconds length,
                         at::Device device = at::kCPU);

}  // namespace colossal::ops
