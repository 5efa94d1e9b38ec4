#include "colossal/models/token_grids.h"

#include <set>
#include <utility>
#include <vector>

#include "colossal/data/text_batch.h"
#include "colossal/ops/upload.h"

namespace colossal::models {
namespace {

// Returns the lengths of the documents of all rows, one row after another; empty if a number comes
// twice in a row, apart: then it is one document all the same. documents: [rows, length], on the
// host.
std::vector<int64_t> lengths_of(const at::Tensor& documents) {
  const at::Tensor rows = documents.contiguous();
  std::vector<int64_t> lengths;
  for (int64_t row = 0; row < rows.size(0); ++row) {
    const auto* numbers = rows.const_data_ptr<int64_t>() + row * rows.size(1);
    std::set<int64_t> seen;
    for (int64_t i = 0; i < rows.size(1); ++i) {
      if (i > 0 && numbers[i] == numbers[i - 1]) {
        ++lengths.back();
      } else if (seen.insert(numbers[i]).second) {
        lengths.push_back(1);
      } else {
        return {};
      }
    }
  }
  return lengths;
}

// Returns the grid of rows of `length` tokens. documents: of the rows, or undefined.
nn::TokenGrid grid_of_rows(const data::Batch& batch, int64_t length, const at::Tensor& documents,
                           const nn::SequencePart& part) {
  const at::Tensor positions = part.positions(length);
  nn::TokenGrid grid{.batch = batch.rows(),
                     .sequence = positions.numel(),
                     .whole_sequence = length,
                     .length = length};
  grid.positions = ops::upload(positions, part.device);
  if (documents.defined()) {
    grid.documents = ops::upload(documents, part.device);
    if (part.device.is_cuda()) grid.document_lengths = lengths_of(documents);
  }
  return grid;
}

}  // namespace

nn::TokenGrid text_grid(const data::Batch& batch, const nn::SequencePart& part) {
  nn::TokenGrid grid =
      grid_of_rows(batch, data::sequence_length_of(batch), batch.find(data::kDocuments), part);
  if (const at::Tensor given = batch.find(data::kPositions); given.defined()) {
    grid.positions = part.of(given, 1);
  }
  return grid;
}

nn::TokenGrid source_grid(const data::Batch& batch, const nn::SequencePart& part) {
  return grid_of_rows(batch, batch.at(data::kSource).size(1), batch.find(data::kSourceDocuments),
                      part);
}

nn::TokenGrid image_grid(const data::Batch& batch, const nn::SequencePart& part,
                         int64_t num_tokens) {
  return grid_of_rows(batch, num_tokens, /*documents=*/{}, part);
}

nn::StepContext context_with(const nn::StepContext& base, const data::Batch& batch,
                             std::vector<nn::TokenGrid> grids) {
  nn::StepContext context = base;
  context.sample_ids = batch.sample_ids;
  context.grids = std::move(grids);
  context.stack = context.grids.size() - 1;
  return context;
}

}  // namespace colossal::models
