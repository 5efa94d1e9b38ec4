#include "colossal/data/token_dataset.h"

#include <ATen/ops/empty.h>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/data/text_batch.h"

namespace colossal::data {
namespace {

std::span<int64_t> row(const at::Tensor& tensor, int64_t index) {
  const int64_t length = tensor.size(1);
  return {tensor.data_ptr<int64_t>() + index * length, static_cast<size_t>(length)};
}

[[noreturn]] void raise_too_small(const Corpus& corpus, int64_t sequence_length) {
  const int64_t tokens = corpus.num_tokens();
  const int64_t files = corpus.num_files();
  throw ConfigError(fmt::format(
      "{}: {} token{} in {} file{}, but a sample of data.sequence_length = {} takes {} tokens: "
      "give "
      "more text{}",
      corpus.setting(), format_count(tokens), tokens == 1 ? "" : "s", format_count(files),
      files == 1 ? "" : "s", sequence_length, sequence_length + 1,
      tokens < 2 ? "" : fmt::format(", or a sequence length of at most {}", tokens - 1)));
}

}  // namespace

TokenDataset::TokenDataset(Corpus corpus, int64_t sequence_length,
                           std::optional<int64_t> end_of_document)
    : corpus_(std::move(corpus)),
      sequence_length_(sequence_length),
      end_of_document_(end_of_document) {
  if (sequence_length < 1) {
    throw ConfigError(fmt::format("data.sequence_length = {}: must be 1 or more", sequence_length));
  }
  if (corpus_.num_tokens() <= sequence_length) raise_too_small(corpus_, sequence_length);
}

Batch TokenDataset::read(std::span<const int64_t> samples,
                         std::span<const int64_t> sample_ids) const {
  COLOSSAL_CHECK(samples.size() == sample_ids.size(), "{} samples, {} ids", samples.size(),
                 sample_ids.size());
  Batch batch = make_batch(sample_ids);
  for (int64_t r = 0; r < std::ssize(samples); ++r) read_row(samples[r], r, batch);
  return batch;
}

Batch TokenDataset::make_batch(std::span<const int64_t> sample_ids) const {
  const auto make = [&] {
    return at::empty({std::ssize(sample_ids), sequence_length_}, at::kLong);
  };
  Batch batch = text_batch(make(), make(), {sample_ids.begin(), sample_ids.end()});
  if (end_of_document_) batch.set(kDocuments, make());
  return batch;
}

void TokenDataset::read_row(int64_t sample, int64_t r, Batch& batch) const {
  const int64_t begin = sample * sequence_length_;
  corpus_.read(begin, row(batch.at(kTokens), r));
  corpus_.read(begin + 1, row(batch.at(kLabels), r));
  if (end_of_document_) {
    batch.at(kDocuments)[r].copy_(
        number_documents(batch.at(kTokens).narrow(0, r, 1), *end_of_document_)[0]);
  }
}

}  // namespace colossal::data
