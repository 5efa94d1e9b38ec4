// Matrices of integers of 4 or 8 bits, packed in words of 32, with a scale and a zero for each
// group of inputs: number = (code - zero) * scale. Three forms; n codes are in a word, lowest bits
// first:
//
//   gptq   qweight I32 [in / n, out], qzeros I32 [groups, out / n], scales [groups, out], and where
//          groups are not runs of inputs g_idx I32 [in]: the group of each. Zeros are held less one
//          (checkpoint_format "gptq")
//   awq    qweight I32 [in, out / 8], qzeros I32 [groups, out / 8], scales [groups, out]; in a word
//          outputs 0, 2, 4, 6, 1, 3, 5, 7
//   compressed-tensors, "pack-quantized"
//          weight_packed I32 [out, in / n], weight_scale [out, groups], weight_shape I64 [2], and
//          weight_zero_point I32 [out / n, groups] unless zeros are in the middle; rounded up
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "colossal/checkpoint/stored_tensor.h"

namespace colossal::checkpoint {

// Null where the folder has no such tensor of this name ("...weight"). Throws ConfigError where its
// parts do not fit each other.
std::unique_ptr<StoredTensor> find_packed_integers(const WeightFolder& folder,
                                                   const std::string& name);
// Of its parts; empty: there is none.
std::vector<std::string> names_of_packed_integers(const WeightFolder& folder,
                                                  const std::string& name);

}  // namespace colossal::checkpoint
