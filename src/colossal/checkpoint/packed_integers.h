// Matrices of 4-bit or 8-bit integers, packed in 32-bit words, with a scale and a zero point for
// each group of inputs: value = (code - zero) * scale. A word has n codes, in the lowest bits
// first. Three formats:
//
//   gptq   qweight I32 [in / n, out], qzeros I32 [groups, out / n], scales [groups, out]. If groups
//          are not contiguous inputs: g_idx I32 [in], the group of each input. Zero points are
//          stored minus 1 (checkpoint_format "gptq")
//   awq    qweight I32 [in, out / 8], qzeros I32 [groups, out / 8], scales [groups, out]. The
//          order of outputs in a word is 0, 2, 4, 6, 1, 3, 5, 7
//   compressed-tensors, "pack-quantized"
//          weight_packed I32 [out, in / n], weight_scale [out, groups], weight_shape I64 [2], and
//          weight_zero_point I32 [out / n, groups], absent if all zero points are the middle of the
//          range; divisions round up
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "colossal/checkpoint/stored_tensor.h"

namespace colossal::checkpoint {

// Returns null if the folder has no packed tensor for `name` ("...weight"). Throws ConfigError if
// the parts of the tensor do not fit each other.
std::unique_ptr<StoredTensor> find_packed_integers(const WeightFolder& folder,
                                                   const std::string& name);
// Returns the names of the tensor's parts; empty if there is no such tensor.
std::vector<std::string> names_of_packed_integers(const WeightFolder& folder,
                                                  const std::string& name);

}  // namespace colossal::checkpoint
