// What the emulated GPUs of a process are like: read once, from environment variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace colossal::emulated_gpu {

constexpr int kMaxDevices = 8;

struct Settings {
  int devices = 1;                   // EMULATED_GPU_DEVICES, at most kMaxDevices
  size_t memory = size_t{12} << 30;  // EMULATED_GPU_MEMORY: bytes of a device
  int delay_percent = 0;             // EMULATED_GPU_DELAY_PERCENT: of kernels that start late
  int delay_microseconds = 1000;     // EMULATED_GPU_DELAY_MICROSECONDS: at most
  uint64_t seed = 1;                 // EMULATED_GPU_SEED, of the delays
  // EMULATED_GPU_FAIL_AT: this kernel of the process fails, or never ends; 0: none. With
  // EMULATED_GPU_FAIL_RANK only in the process of this RANK.
  int64_t fail_at = 0;
  bool hangs = false;  // EMULATED_GPU_HANGS=1: it never ends
  std::string report;  // EMULATED_GPU_REPORT: see report.h; empty: none
};

const Settings& settings();

}  // namespace colossal::emulated_gpu
