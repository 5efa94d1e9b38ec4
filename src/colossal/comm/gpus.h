// The GPUs that this process can use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace colossal::comm {

// Returns their number; 0 if LibTorch is a build without CUDA.
int num_gpus();

struct Gpu {
  std::string name;  // such as "NVIDIA H100 80GB HBM3"; "GPU" if the driver does not tell it
  int64_t memory_bytes = 0;
};
std::vector<Gpu> gpus();

}  // namespace colossal::comm
