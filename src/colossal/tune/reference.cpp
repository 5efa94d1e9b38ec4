#include "colossal/tune/reference.h"

#include "colossal/tune/completion_scores.h"

namespace colossal::tune {

ScoreCollector::ScoreCollector(const ParallelContext& context)
    : ScoreCollector([&context](models::LanguageModel& model, const at::Tensor& x,
                                const data::Batch& batch, const nn::StepContext& step) {
        return score_completions(model, x, batch, step, context).log_probability;
      }) {}

HeadLoss ScoreCollector::head() {
  return [this](models::LanguageModel& model, const at::Tensor& x, const data::Batch& batch,
                const nn::StepContext& step) {
    if (!x.is_meta()) found_.push_back(score_(model, x, batch, step));
    return LossSum{};
  };
}

void ScoreCollector::move_to(std::vector<data::Batch>& batches, const char* name) {
  size_t next = 0;
  for (data::Batch& batch : batches) {
    if (next == found_.size()) break;
    if (batch.inputs.size(0) > 0) batch.fields[name] = {found_[next++]};
  }
  found_.clear();
}

Reference::Reference(const Job& job, const ParallelContext& context)
    : collector_(context), model_(job, context, collector_.head()) {}

Reference::Reference(const Job& job, const ParallelContext& context, ScoreCollector::Score score)
    : collector_(std::move(score)), model_(job, context, collector_.head()) {}

void Reference::score(std::vector<data::Batch>& batches) {
  model_.run(batches);
  collector_.move_to(batches, kScores);
}

std::vector<at::Tensor> Reference::scores_of(const std::vector<data::Batch>& batches) {
  model_.run(batches);
  return collector_.take();
}

}  // namespace colossal::tune
