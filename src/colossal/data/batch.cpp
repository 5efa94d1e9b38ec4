#include "colossal/data/batch.h"

#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include <numeric>
#include <ranges>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/ops/upload.h"

namespace colossal::data {

at::Tensor& Batch::at(const std::string& field) {
  const auto found = fields.find(field);
  COLOSSAL_CHECK(found != fields.end(), "a batch without \"{}\"; it has {}", field,
                 fmt::join(std::views::keys(fields), ", "));
  return found->second.values;
}

const at::Tensor& Batch::at(const std::string& field) const {
  return const_cast<Batch&>(*this).at(field);
}

at::Tensor Batch::find(const std::string& field) const {
  const auto found = fields.find(field);
  return found == fields.end() ? at::Tensor() : found->second.values;
}

void Batch::set(const std::string& field, at::Tensor values, std::optional<int64_t> sequence_dim) {
  fields[field] = {std::move(values), sequence_dim};
}

Batch local_batch(const Batch& batch, const nn::SequencePart& part) {
  Batch local = batch;
  for (auto& [name, field] : local.fields) {
    field.values = field.sequence_dim ? part.of(field.values, *field.sequence_dim)
                                      : ops::upload(field.values, part.device);
  }
  return local;
}

Batch BatchSpecification::make(int64_t rows, at::Device device) const {
  Batch batch{.sample_ids = std::vector<int64_t>(rows), .units = rows * units_of_sample};
  std::iota(batch.sample_ids.begin(), batch.sample_ids.end(), int64_t{0});
  for (const FieldSpecification& field : fields) {
    std::vector<int64_t> shape{rows};
    shape.insert(shape.end(), field.shape.begin(), field.shape.end());
    batch.set(field.name, at::empty(shape, at::TensorOptions(field.type).device(device)),
              field.sequence_dim);
  }
  return batch;
}

}  // namespace colossal::data
