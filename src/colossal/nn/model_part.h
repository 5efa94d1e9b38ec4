// ModelPart: which part of a model layers and their parameters belong to.
#pragma once

#include <cstdint>

namespace colossal::nn {

// A part of a model that is wholly on one pipeline stage.
struct ModelPart {
  enum class Kind {
    embedding,  // everything before the blocks
    block,      // the block with index `block`
    head        // everything after the blocks
  };
  Kind kind = Kind::embedding;
  int64_t block = 0;  // used with Kind::block
  // Index of the tower, a stack of blocks with sizes of its own, to which the part's layers belong;
  // 0 in models of one tower.
  int tower = 0;

  bool operator==(const ModelPart&) const = default;
};

}  // namespace colossal::nn
