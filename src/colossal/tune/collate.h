// Collates rows of tokens into a batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/tune/samples.h"

namespace colossal::tune {

// Inputs are all tokens of a row except the last; labels are the next tokens, or -100 (ignored) for
// tokens that are not trained on. Rows are padded with `padding` to the length of the longest row,
// at least `min_length` inputs. The batch has documents and positions if the rows are packed.
data::Batch collate(const std::vector<const Row*>& rows, std::vector<int64_t> sample_ids,
                    int32_t padding, int64_t min_length);

}  // namespace colossal::tune
