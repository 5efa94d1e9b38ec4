// The vocabulary head of tensor parallelism in modes 2d, 2.5d and 3d: it turns hidden states into
// logits and losses (nn::VocabularyHead).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "colossal/nn/dense_layers.h"
#include "colossal/parallel/tensor/tensor_grid.h"

namespace colossal::parallel {

// The groups of two ranks that swap a tensor before the head uses it; null: this rank already holds
// its part of the tensor.
struct GridHeadMirrors {
  const comm::Group* table = nullptr;
  const comm::Group* activation = nullptr;
};

// Makes the head of this rank. rows: this rank's rows of the vocabulary, [piece][block]. hidden:
// number of features of a whole hidden state. `grid` and the groups must outlive the head.
std::unique_ptr<nn::VocabularyHead> make_grid_head(nn::VocabularyHeadParts parts,
                                                   std::vector<std::vector<Range>> rows,
                                                   int64_t hidden, const TensorGrid& grid,
                                                   const GridHeadMirrors& mirrors);

}  // namespace colossal::parallel
