// Vision transformers against transformers: scores, reconstructed images or logits of pairs, loss,
// gradients and weights after three steps of AdamW in fp64, from folders that transformers wrote.
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <filesystem>

#include "colossal/comm/world.h"
#include "colossal/data/image_batch.h"
#include "colossal/data/score_fields.h"
#include "colossal/data/text_batch.h"
#include "colossal/engine/contrastive_loss.h"
#include "colossal/engine/reconstruction_loss.h"
#include "colossal/models/families.h"
#include "colossal/nn/dense_builder.h"
#include "tests/engine/oracle.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tiny_training.h"

namespace colossal::test::vision_oracle {
namespace {

namespace fs = std::filesystem;

void expect_close(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  EXPECT_LE((found - expected).norm().item<double>(), 1e-9 * (1 + expected.norm().item<double>()))
      << what;
}

// The texts that transformers read, and the token of each that stands for it.
void set_texts(const io::SafetensorsReader& result, const models::TextTower& texts,
               data::Batch& batch) {
  const at::Tensor tokens = read_tensor(result, "tokens", at::kDouble).to(at::kLong);
  const at::Tensor pooling = at::zeros(tokens.sizes(), at::kDouble);
  for (int64_t row = 0; row < tokens.size(0); ++row) {
    const auto* ids = tokens[row].const_data_ptr<int64_t>();
    pooling[row][models::pooled_token(texts, {ids, ids + tokens.size(1)})] = 1;
  }
  batch.set(data::kTokens, tokens, 1);
  batch.set(data::kPooling, pooling, 1);
}

// The images that transformers saw, and their texts, classes or masks.
void set_images(const io::SafetensorsReader& result,
                const models::ModelSpecification& specification, data::Batch& batch) {
  batch.set(data::kPixels, read_tensor(result, "pixels", at::kDouble));
  if (const auto& texts = specification.text_tower) return set_texts(result, *texts, batch);
  if (result.find("masks")) {
    batch.set(data::kMasks, read_tensor(result, "masks", at::kDouble).to(at::kBool));
    return;
  }
  batch.set(data::kTargets, read_tensor(result, "targets", at::kDouble).unsqueeze(1));
}

// Compares the scores, and returns the loss.
at::Tensor loss_of_classes(models::Model& model, const nn::BlockState& state,
                           const data::Batch& batch, const nn::StepContext& context,
                           const io::SafetensorsReader& result) {
  const at::Tensor scores = model.score_head().scores(state.output(), context).sum(1);
  expect_close(scores, read_tensor(result, "logits", at::kDouble), "scores");
  return at::cross_entropy_loss(scores, batch.at(data::kTargets).squeeze(1).to(at::kLong));
}

// Compares the reconstructed images, and returns the loss.
at::Tensor loss_of_reconstruction(models::Model& model, const nn::BlockState& state,
                                  const data::Batch& batch, const nn::StepContext& context,
                                  const nn::PatchEmbeddingOptions& patches,
                                  const io::SafetensorsReader& result) {
  const at::Tensor found =
      model.pixel_head()
          .pixels(state.output(), context)
          .narrow(1, patches.num_prefix_tokens(), patches.rows() * patches.columns());
  expect_close(nn::images_of_patches(found, patches),
               read_tensor(result, "reconstruction", at::kDouble), "reconstruction");
  const LossSum loss = reconstruction_loss(patches)(model, state, batch, context);
  EXPECT_EQ(loss.count.value(), batch.at(data::kMasks).sum().item<int64_t>());
  return loss.sum / loss.count.value();
}

// Compares the logits, and returns the loss.
at::Tensor loss_of_pairs(models::Model& model, const nn::BlockState& state,
                         const data::Batch& batch, const nn::StepContext& context,
                         const models::TextTower& texts, const io::SafetensorsReader& result) {
  const auto world = comm::single_world();
  const ParallelContext alone(*world, {});
  const models::Embeddings found = unit_vectors(model, state, batch, context, alone);
  at::Tensor logits = at::matmul(found.images, found.texts.t()) * at::exp(found.logit_scale);
  if (found.logit_bias.defined()) logits = logits + found.logit_bias;
  expect_close(logits, read_tensor(result, "logits", at::kDouble), "logits");
  std::vector<data::Batch> batches{batch};
  add_pair_gradients(batches, {found}, texts, at::kDouble, alone);
  const LossSum loss = contrastive_loss(texts, alone)(model, state, batches[0], context);
  return loss.sum / loss.count.value();
}

void expect_like_transformers(const fs::path& directory) {
  const models::ModelSpecification specification =
      models::resolve_model({.path = (directory / "model").string()});
  nn::DenseBuilder build;
  const auto model = models::build_model(specification, build);
  const io::SafetensorsReader weights(directory / "model" / "model.safetensors");
  const io::SafetensorsReader result(directory / "result.safetensors");
  int64_t parameters = 0;
  for (const nn::ParameterHandle& parameter : build.parameters()) {
    parameter->tensor =
        read_parameter(weights, "", models::slice_in_files(specification, parameter->name),
                       at::kDouble)
            .requires_grad_(parameter->trainable);
    ASSERT_EQ(parameter->tensor.sizes(), parameter->shape) << parameter->name;
    parameters += parameter->numel();
  }
  EXPECT_EQ(parameters, specification.facts.parameters);
  data::Batch batch{.sample_ids = {0, 1, 2}};
  set_images(result, specification, batch);
  const nn::StepContext context = model->context_of(batch, {}, {});
  const nn::BlockState state =
      model->run_blocks({0, model->num_blocks()}, model->inputs(batch, context), context);
  const auto& texts = specification.text_tower;
  const at::Tensor loss = texts ? loss_of_pairs(*model, state, batch, context, *texts, result)
                          : specification.transformer.reconstructs
                              ? loss_of_reconstruction(*model, state, batch, context,
                                                       *specification.transformer.patches, result)
                              : loss_of_classes(*model, state, batch, context, result);
  expect_close(loss, read_tensor(result, "loss", at::kDouble), "loss");
  torch::autograd::backward({loss}, {});
  for (const nn::ParameterHandle& parameter : build.parameters()) {
    if (!parameter->trainable) continue;
    const TensorSlice slice = models::slice_in_files(specification, parameter->name);
    expect_close(parameter->tensor.grad(), read_parameter(result, "gradient.", slice, at::kDouble),
                 parameter->name);
  }
}

void expect_trains_like_transformers(const fs::path& directory) {
  const models::ModelSpecification specification =
      models::resolve_model({.path = (directory / "model").string()});
  const io::SafetensorsReader weights(directory / "model" / "model.safetensors");
  const io::SafetensorsReader result(directory / "result.safetensors");
  TinyTraining training;
  training.model = specification.transformer;
  training.text_tower = specification.text_tower;
  training.texts_given = true;
  training.global_batch = 3;
  training.eps = 1e-5;
  training.fields = [&](data::Batch& batch) { set_images(result, specification, batch); };
  nn::DenseBuilder names;
  models::build_model(specification, names);
  TinyResult expected;
  const at::Tensor losses = read_tensor(result, "losses", at::kDouble);
  expected.losses.assign(losses.const_data_ptr<double>(),
                         losses.const_data_ptr<double>() + losses.numel());
  for (const nn::ParameterHandle& parameter : names.parameters()) {
    const TensorSlice slice = models::slice_in_files(specification, parameter->name);
    training.initial[parameter->name] = read_parameter(weights, "", slice, at::kDouble);
    if (!parameter->trainable) continue;
    expected.weights[parameter->name] = read_parameter(result, "trained.", slice, at::kDouble);
  }
  expect_same(train_tiny(training, 1), expected, 1e-7, training);
}

TEST(VisionOracle, EveryFamilyComputesAndTrainsLikeTransformers) {
  const TemporaryDirectory folder;
  run_oracle("vision_oracle.py", folder.path(), "");
  int variants = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    if (!fs::exists(entry.path() / "result.safetensors")) continue;
    SCOPED_TRACE(entry.path().filename().string());
    expect_like_transformers(entry.path());
    expect_trains_like_transformers(entry.path());
    ++variants;
  }
  EXPECT_EQ(variants, 33);
}

}  // namespace
}  // namespace colossal::test::vision_oracle
