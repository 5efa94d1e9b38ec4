// The fields of batches for models that give each row scores: classes, labels, rewards.
#pragma once

namespace colossal::data {

// [rows, positions of a sequence], fp64: the factor of the scores at each position in those of the
// row: 1 at one position of a text. Without this field: 1 at all positions.
inline constexpr const char* kPooling = "pooling";
// What the scores should be: [rows, 1], fp64, the index of the class; or [rows, scores], such as
// the share of each class.
inline constexpr const char* kTargets = "targets";

}  // namespace colossal::data
