// Measures the rate of matrix products on this machine. The model FLOPs utilization that training
// reports is relative to this rate.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>

namespace colossal::ops {

// Repeats LibTorch's product of [1024, 768] by [768, 3072], on a GPU of [8192, 8192] by [8192,
// 8192], for the time `length`, but at least 3 times. Returns the rate of the fastest repetition,
// in FLOP/s. If 3 products would take longer than `length`, as with a type that the machine only
// emulates, uses fewer rows. The CPU computes with at::get_num_threads() threads.
double measure_gemm_rate(at::ScalarType type, std::chrono::milliseconds length,
                         at::Device device = at::kCPU);

}  // namespace colossal::ops
