// Makes a batch of rows of tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/tune/samples.h"

namespace colossal::tune {

// The inputs are all tokens of a row but its last; the labels are the tokens that follow them, or
// -100 where a token is not learned. Rows are padded with token `padding` to the longest, and to
// `min_length` inputs at least. The batch has documents and positions if the rows were packed.
data::Batch collate(const std::vector<const Row*>& rows, std::vector<int64_t> sample_ids,
                    int32_t padding, int64_t min_length);

}  // namespace colossal::tune
