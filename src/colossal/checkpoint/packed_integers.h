// Reads quantized weights of linear layers that are stored as 4-bit or 8-bit codes in 32-bit words,
// as published models have them. find_stored_tensor() (stored_tensor.h) uses it.
//
// A weight has `out` outputs and `in` inputs. The inputs form `groups` groups. Each output has a
// scale and a zero point for each group: value = (code - zero point) * scale. A word holds n codes,
// the first in the lowest bits: n = 8 of 4 bits, or n = 4 of 8 bits. In the shapes below, divisions
// by n round up. If the tensor of zero points is absent, all are the middle of the range of codes.
// There are three formats:
//
//   gptq   qweight I32 [in / n, out], qzeros I32 [groups, out / n], scales [groups, out]. If groups
//          are not contiguous inputs: g_idx I32 [in], the group of each input. Files store
//          zero point - 1 unless config.json has checkpoint_format "gptq_v2".
//   awq    4 bits. qweight I32 [in, out / 8], qzeros I32 [groups, out / 8], scales [groups, out].
//          Of 8 consecutive outputs, a word holds 0, 2, 4, 6, 1, 3, 5, 7, from the lowest bits on.
//   compressed-tensors, "pack-quantized"
//          weight_packed I32 [out, in / n], weight_scale [out, groups], weight_shape I64 [2] (out,
//          in), and weight_zero_point I32 [out / n, groups].
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "colossal/checkpoint/stored_tensor.h"

namespace colossal::checkpoint {

// Returns the weight `name`, which ends with "weight", for reading as decoded values: fp32, in the
// shape that the unquantized weight has, [out, in] or, in families that store it so, [in, out].
// Null if the folder does not store it in one of these formats. `folder` must outlive the result.
// Throws ConfigError if one of the other tensors is missing (only zero points and g_idx may be), or
// if the tensors do not fit each other.
std::unique_ptr<StoredTensor> find_packed_integers(const WeightFolder& folder,
                                                   const std::string& name);
// Returns the names of the tensors that store the weight `name`, such as "...qweight" and
// "...scales". Empty if the folder does not store it in one of these formats.
std::vector<std::string> names_of_packed_integers(const WeightFolder& folder,
                                                  const std::string& name);

}  // namespace colossal::checkpoint
