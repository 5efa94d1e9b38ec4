#include "colossal/engine/dry_loss.h"

#include "colossal/engine/contrastive_loss.h"
#include "colossal/engine/reconstruction_loss.h"
#include "colossal/engine/score_loss.h"

namespace colossal {

DryLoss dry_loss(const Job& job, const ParallelContext& context) {
  if (job.model.text_tower) return {contrastive_loss(*job.model.text_tower, context), {"accuracy"}};
  if (job.model.transformer.reconstructs) {
    return {reconstruction_loss(*job.model.transformer.patches), {}};
  }
  if (job.model.facts.scores == 0) return {cross_entropy_of_all, {}};
  const models::Problem problem = models::labels_of(job.model).problem;
  return {score_loss(problem, context), {score_metric(problem)}};
}

}  // namespace colossal
