#include "colossal/tune/samples/collate.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>

#include <algorithm>

#include "colossal/data/text_batch.h"
#include "colossal/ops/loss/linear_cross_entropy.h"

namespace colossal::tune {
namespace {

void fill_row(const Row& row, int64_t index, data::Batch& batch) {
  auto inputs = batch.at(data::kTokens).accessor<int64_t, 2>();
  auto labels = batch.at(data::kLabels).accessor<int64_t, 2>();
  for (int64_t i = 0; i + 1 < std::ssize(row.tokens); ++i) {
    inputs[index][i] = row.tokens[i];
    if (row.learned[i + 1]) labels[index][i] = row.tokens[i + 1];
  }
}

// Sets documents and positions of a row. Its padding is a document of its own.
void fill_documents(const Row& row, int64_t index, data::Batch& batch) {
  auto documents = batch.at(data::kDocuments).accessor<int64_t, 2>();
  auto positions = batch.at(data::kPositions).accessor<int64_t, 2>();
  const int64_t padding = row.documents.empty() ? 1 : row.documents.back() + 1;
  for (int64_t i = 0; i < batch.at(data::kTokens).size(1); ++i) {
    const bool inside = i + 1 < std::ssize(row.tokens);
    documents[index][i] = !inside ? padding : row.documents.empty() ? 0 : row.documents[i];
    positions[index][i] = !inside ? 0 : row.positions.empty() ? i : row.positions[i];
  }
}

void add_sources(const std::vector<const Row*>& rows, int32_t padding, int64_t min_length,
                 data::Batch& batch) {
  int64_t length = std::max<int64_t>(1, min_length);
  for (const Row* row : rows) length = std::max(length, std::ssize(row->source));
  const at::Tensor source = at::full({std::ssize(rows), length}, padding, at::kLong);
  const at::Tensor documents = at::full_like(source, -1);
  auto tokens = source.accessor<int64_t, 2>();
  for (int64_t i = 0; i < std::ssize(rows); ++i) {
    const auto size = std::ssize(rows[i]->source);
    for (int64_t k = 0; k < size; ++k) tokens[i][k] = rows[i]->source[k];
    documents[i].narrow(0, 0, size).fill_(0);
  }
  batch.set(data::kSource, source, 1);
  batch.set(data::kSourceDocuments, documents);
}

}  // namespace

data::Batch collate(const std::vector<const Row*>& rows, std::vector<int64_t> sample_ids,
                    int32_t padding, int64_t min_length) {
  int64_t length = std::max<int64_t>(1, min_length);
  bool packed = false;
  for (const Row* row : rows) {
    length = std::max(length, std::ssize(row->tokens) - 1);
    packed = packed || !row->documents.empty();
  }
  const auto filled = [&](int64_t value) {
    return at::full({std::ssize(rows), length}, value, at::kLong);
  };
  data::Batch batch =
      data::text_batch(filled(padding), filled(ops::kIgnoredLabel), std::move(sample_ids));
  if (packed) {
    batch.set(data::kDocuments, filled(0));
    batch.set(data::kPositions, filled(0), 1);
  }
  batch.units = 0;
  for (int64_t i = 0; i < std::ssize(rows); ++i) {
    fill_row(*rows[i], i, batch);
    if (packed) fill_documents(*rows[i], i, batch);
    batch.units += std::max<int64_t>(0, std::ssize(rows[i]->tokens) - 1);
  }
  if (!rows.empty() && !rows.front()->source.empty()) {
    add_sources(rows, padding, min_length, batch);
  }
  return batch;
}

}  // namespace colossal::tune
