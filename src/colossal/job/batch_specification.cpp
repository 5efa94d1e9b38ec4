#include "colossal/job/batch_specification.h"

#include "colossal/data/image_batch.h"
#include "colossal/data/pair_fields.h"
#include "colossal/data/score_fields.h"
#include "colossal/data/text_batch.h"
#include "colossal/models/labels.h"

namespace colossal {
namespace {

void add_score_fields(const Job& job, data::BatchSpecification& specification) {
  const bool classes = models::labels_of(job.model).problem == models::Problem::single_label;
  if (!job.model.transformer.patches) {
    specification.fields.push_back({.name = data::kPooling,
                                    .type = at::kDouble,
                                    .shape = {job.sequence_length},
                                    .sequence_dim = 1});
  }
  specification.fields.push_back({.name = data::kTargets,
                                  .type = at::kDouble,
                                  .shape = {classes ? 1 : job.model.facts.scores}});
}

// compared: whether each replica has several micro-batches, which are compared before the loss.
void add_pair_fields(const models::TextTower& texts, bool compared,
                     data::BatchSpecification& specification) {
  const int64_t length = texts.transformer.positions;
  specification.fields.push_back({.name = data::kTokens, .shape = {length}, .sequence_dim = 1});
  specification.fields.push_back(
      {.name = data::kPooling, .type = at::kDouble, .shape = {length}, .sequence_dim = 1});
  if (!compared) return;
  for (const char* name : {data::kImageGradients, data::kTextGradients}) {
    specification.fields.push_back({.name = name, .type = at::kFloat, .shape = {texts.features}});
  }
  for (const char* name :
       {data::kScaleGradients, data::kBiasGradients, data::kPairLosses, data::kPairMatches}) {
    specification.fields.push_back({.name = name, .type = at::kFloat});
  }
}

}  // namespace

data::BatchSpecification batch_specification(const Job& job) {
  const auto& patches = job.model.transformer.patches;
  data::BatchSpecification specification =
      patches ? data::image_specification(patches->channels, patches->height, patches->width)
              : data::text_specification(job.sequence_length, job.config.data.separate_documents,
                                         job.model.facts.encoder_layers > 0);
  if (job.model.facts.scores > 0) add_score_fields(job, specification);
  if (const auto& texts = job.model.text_tower)
    add_pair_fields(*texts, job.num_micro_batches() > 1, specification);
  if (job.model.transformer.reconstructs) {
    specification.fields.push_back(
        {.name = data::kMasks, .type = at::kBool, .shape = {patches->rows() * patches->columns()}});
  }
  return specification;
}

}  // namespace colossal
