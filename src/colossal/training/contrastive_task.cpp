#include "colossal/training/contrastive_task.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>

#include <string>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/engine/contrastive_loss.h"
#include "colossal/engine/state_shapes.h"
#include "colossal/models/text_tower.h"
#include "colossal/training/image_task.h"
#include "colossal/training/paired_texts.h"
#include "colossal/training/training_data.h"

namespace colossal {
namespace {

using models::TextTower;

class ContrastiveTask final : public ImageTask {
 public:
  ContrastiveTask(const Job& job, const ParallelContext& context)
      : ImageTask(job, context, {.texts = true}),
        tokenizer_(open_tokenizer(job)),
        texts_(tower(), *tokenizer_, job.tokenizer, context.strategy().sp) {}

  SavedModel saved_model() const override {
    SavedModel saved = ImageTask::saved_model();
    for (const auto& file : tokenizer_->files()) saved.files.push_back(file);
    return saved;
  }
  nlohmann::json state() const override {
    nlohmann::json state = ImageTask::state();
    state["tokenizer"] = tokenizer_->fingerprint();
    return state;
  }
  void check_resumed(const nlohmann::json& saved) const override {
    refuse_other_tokenizer(saved, *tokenizer_, job().tokenizer);
    ImageTask::check_resumed(saved);
  }

  HeadLoss loss() const override { return contrastive_loss(tower(), context()); }
  std::vector<std::string> metrics() const override { return {"accuracy"}; }
  std::vector<std::string> shown_metrics() const override { return metrics(); }

  void begin(models::Model& model, Engine&) override {
    const HeadLoss collect = [this](models::Model& trained, const nn::BlockState& state,
                                    const data::Batch& batch, const nn::StepContext& step) {
      if (!state.output().is_meta()) {
        vectors_.push_back(unit_vectors(trained, state, batch, step, context()));
      }
      return LossSum{};
    };
    in_evaluation_ = pipelined(model, model_source_of(job()), context(), collect);
    in_training_ = as_in_training(in_evaluation_);
  }
  ConcurrentWork begin_step(Engine&) override {
    is_training_ = true;
    return {};
  }
  std::map<std::string, double> complete(std::vector<data::Batch>& batches,
                                         Engine& engine) override {
    const bool training = std::exchange(is_training_, false);
    if (training && batches.size() == 1) return {};  // loss() compares them
    find_vectors(batches, engine, training);
    const std::vector<models::Embeddings> vectors = std::exchange(vectors_, {});
    const bool wide = job().precision.compute == at::kDouble;
    if (has_heads()) {
      add_pair_gradients(batches, vectors, tower(), wide ? at::kDouble : at::kFloat, context());
    }
    return {};
  }
  std::vector<report::Picture> pictures(Engine& engine) override;

 private:
  const TextTower& tower() const { return *job().model.text_tower; }
  bool has_heads() const { return context().holds_stage(context().strategy().num_stages() - 1); }
  data::Batch batch_of_images(data::ImageBatch images,
                              const std::vector<int64_t>& sample_ids) const override {
    const std::vector<std::string> texts = std::move(images.texts);
    data::Batch batch = ImageTask::batch_of_images(std::move(images), sample_ids);
    texts_.add_to(batch, texts);
    return batch;
  }
  // Fills vectors_ on the ranks with heads.
  void find_vectors(const std::vector<data::Batch>& batches, Engine& engine, bool training) {
    vectors_.clear();
    engine.evaluate(
        batches, [] { return false; }, training ? &in_training_ : &in_evaluation_);
  }

  std::unique_ptr<text::Tokenizer> tokenizer_;
  PairedTexts texts_;
  StagedModel in_training_, in_evaluation_;  // whose head fills vectors_
  std::vector<models::Embeddings> vectors_;  // of each micro-batch with rows
  bool is_training_ = false;  // whether a training step has begun that is not yet complete()d
};

std::vector<report::Picture> ContrastiveTask::pictures(Engine& engine) {
  constexpr int64_t kMost = 24, kLargest = int64_t{1} << 18;
  if (!has_validation()) return {};
  const std::vector<int64_t> shown = shown_images(kMost);
  find_vectors({batch_of(shown)}, engine, /*training=*/false);
  const std::vector<models::Embeddings> found = std::exchange(vectors_, {});
  const auto count = std::ssize(shown);
  at::Tensor nearest;
  if (!found.empty()) {
    nearest = at::matmul(found[0].images, found[0].texts.t()).argmax(1).to(at::kDouble);
  }
  const at::Tensor of_images =
      comm::on_host(on_all_ranks(nearest, {count}, /*divided=*/false), context().world_group());
  if (context().rank() != 0) return {};
  std::vector<report::Picture> pictures;
  for (int64_t i = 0; i < count; ++i) {
    const auto text = static_cast<size_t>(of_images[i].item<double>());
    const data::ImageSample sample = validation_images().read(shown[i]);
    const std::string chosen = validation_images().read(shown[text]).text;
    if (std::ssize(sample.content) > kLargest) continue;
    const bool wrong = chosen != sample.text;
    pictures.push_back(
        {.content = sample.content,
         .caption = wrong ? fmt::format("\"{}\", is \"{}\"", chosen, sample.text) : chosen,
         .is_wrong = wrong});
  }
  return pictures;
}

}  // namespace

std::unique_ptr<TrainingTask> make_contrastive_task(const Job& job,
                                                    const ParallelContext& context) {
  COLOSSAL_CHECK(job.model.text_tower, "a model of family {} with one tower",
                 job.model.facts.family);
  return std::make_unique<ContrastiveTask>(job, context);
}

}  // namespace colossal
