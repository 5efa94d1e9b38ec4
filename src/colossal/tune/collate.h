// Rows of tokens as a batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/tune/samples.h"

namespace colossal::tune {

// Inputs are the rows' tokens but for the last of each, labels those that follow: -100 where they
// are not learned. Shorter rows are filled with `padding` up to the longest, and all up to
// `min_length` inputs. Rows that were packed have documents and positions.
data::Batch collate(const std::vector<const Row*>& rows, std::vector<int64_t> sample_ids,
                    int32_t padding, int64_t min_length);

}  // namespace colossal::tune
