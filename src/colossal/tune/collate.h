// Collates rows of tokens into a batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/tune/samples.h"

namespace colossal::tune {

// Inputs are all tokens of a row except the last; the label of an input is the next token, or -100
// (ignored) if that token is not trained on. Inputs are padded with the token `padding`, labels
// with -100, to the length of the longest row, but at least `min_length`. The batch has documents
// and positions if any row is packed; the padding of a row is then a document of its own.
// sample_ids: one per row.
data::Batch collate(const std::vector<const Row*>& rows, std::vector<int64_t> sample_ids,
                    int32_t padding, int64_t min_length);

}  // namespace colossal::tune
