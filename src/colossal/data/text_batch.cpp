#include "colossal/data/text_batch.h"

#include <ATen/ops/empty_like.h>

#include <utility>

namespace colossal::data {

Batch text_batch(at::Tensor tokens, at::Tensor labels, std::vector<int64_t> sample_ids) {
  Batch batch{.sample_ids = std::move(sample_ids), .units = tokens.numel()};
  batch.set(kTokens, std::move(tokens), 1);
  batch.set(kLabels, std::move(labels), 1);
  return batch;
}

int64_t sequence_length_of(const Batch& batch) {
  return batch.at(kTokens).size(1);
}

BatchSpecification text_specification(int64_t sequence, bool has_documents, bool has_source) {
  const auto field = [&](const char* name, std::optional<int64_t> sequence_dim) {
    return FieldSpecification{.name = name, .shape = {sequence}, .sequence_dim = sequence_dim};
  };
  BatchSpecification specification{.fields = {field(kTokens, 1), field(kLabels, 1)},
                                   .units_of_sample = sequence};
  if (has_documents) specification.fields.push_back(field(kDocuments, std::nullopt));
  if (has_source) {
    specification.fields.push_back(field(kSource, 1));
    specification.fields.push_back(field(kSourceDocuments, std::nullopt));
  }
  return specification;
}

at::Tensor number_documents(const at::Tensor& tokens, int64_t end_of_document) {
  const at::Tensor contiguous = tokens.contiguous();
  at::Tensor documents = at::empty_like(contiguous);
  const auto* token = contiguous.const_data_ptr<int64_t>();
  auto* document = documents.mutable_data_ptr<int64_t>();
  for (int64_t row = 0; row < tokens.size(0); ++row) {
    int64_t number = 0;
    for (int64_t i = 0; i < tokens.size(1); ++i) {
      *document++ = number;
      if (*token++ == end_of_document) ++number;
    }
  }
  return documents;
}

}  // namespace colossal::data
