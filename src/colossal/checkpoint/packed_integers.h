// Matrices of 4-bit or 8-bit codes, packed in 32-bit words. Each output has a scale and a zero
// point for each group of inputs: value = (code - zero point) * scale. A word holds n = 8 codes of
// 4 bits or n = 4 codes of 8 bits, the first code in the lowest bits. Three formats:
//
//   gptq   qweight I32 [in / n, out], qzeros I32 [groups, out / n], scales [groups, out]. If groups
//          are not runs of contiguous inputs: g_idx I32 [in], the group of each input. With
//          checkpoint_format "gptq", zero points are stored minus 1
//   awq    4 bits. qweight I32 [in, out / 8], qzeros I32 [groups, out / 8], scales [groups, out].
//          The order of 8 outputs in a word is 0, 2, 4, 6, 1, 3, 5, 7, from the lowest bits on
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

// Returns the tensor `name` ("...weight"), decoded from one of these formats; null if the folder
// has no packed tensor for it. `folder` must outlive the result. Throws ConfigError if the parts of
// the tensor do not fit each other.
std::unique_ptr<StoredTensor> find_packed_integers(const WeightFolder& folder,
                                                   const std::string& name);
// Returns the names of the folder's tensors that these formats use for `name`: "...qweight",
// "...scales", .... Returns an empty list if there is no packed tensor for it.
std::vector<std::string> names_of_packed_integers(const WeightFolder& folder,
                                                  const std::string& name);

}  // namespace colossal::checkpoint
