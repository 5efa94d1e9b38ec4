#include "colossal/nn/block_state.h"

namespace colossal::nn {

std::vector<at::Tensor> BlockState::tensors() const {
  std::vector<at::Tensor> all = streams;
  all.insert(all.end(), conditions.begin(), conditions.end());
  return all;
}

}  // namespace colossal::nn
