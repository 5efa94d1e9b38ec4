// Collates tokenized rows (samples.h) into a padded batch of tensors for training.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/tune/samples/samples.h"

namespace colossal::tune {

// Returns a batch with these rows. The inputs of a row are all its tokens except the last. The
// label of an input is the next token, or -100 (ignored) if the next token is not trained on
// (Row::learned). All rows are padded to the same number of inputs, that of the longest row and at
// least `min_length` and 1: inputs with the token `padding`, labels with -100. Batch::units is
// the number of inputs that are no padding. Rows with a Row::source, which must then all have one,
// give the fields data::kSource and data::kSourceDocuments, padded in the same way. If
// any row is packed (Row::documents), the batch has data::kDocuments and data::kPositions; the
// padding of a row is then a document of its own. sample_ids: Batch::sample_ids, one per row.
data::Batch collate(const std::vector<const Row*>& rows, std::vector<int64_t> sample_ids,
                    int32_t padding, int64_t min_length);

}  // namespace colossal::tune
