// Divides an attention between runs of positions into tiles that flash attention kernels compute
// whole: tiles in which each query sees each key, and tiles on the diagonal.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/ops/attention/attention_rule.h"

namespace colossal::ops {

struct AttentionTile {
  Range queries, keys;  // rows of the tensors of queries and of keys
  // Whether the mask of rule.causal applies, aligned to the tile's last query and last key, which
  // are at the same position. Otherwise each query sees each key.
  bool on_diagonal = false;

  bool operator==(const AttentionTile&) const = default;
};

// Returns the tiles that contain all keys that queries at the positions `queries` see among keys at
// the positions `keys`. The rows of each tensor are at the positions of its runs, in order: those
// of the first run, then those of the second, and so on. rule: only `causal` counts.
std::vector<AttentionTile> attention_tiles(const std::vector<Range>& queries,
                                           const std::vector<Range>& keys,
                                           const AttentionRule& rule);

}  // namespace colossal::ops
