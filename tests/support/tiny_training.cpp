#include "tests/support/tiny_training.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "colossal/data/image_batch.h"
#include "colossal/data/image_masks.h"
#include "colossal/data/pair_fields.h"
#include "colossal/data/score_fields.h"
#include "colossal/data/text_batch.h"
#include "colossal/engine/contrastive_loss.h"
#include "colossal/engine/reconstruction_loss.h"
#include "colossal/engine/score_loss.h"
#include "colossal/engine/state_shapes.h"
#include "colossal/layout/heads.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/families.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/ops/fallback/meta_kernels.h"
#include "colossal/parallel/builder.h"
#include "tests/support/run_ranks.h"

namespace colossal::test {
namespace {

constexpr models::Problem kProblem = models::Problem::single_label;  // of images

uint64_t hash(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

EngineConfig engine_config(const TinyTraining& training) {
  EngineConfig config;
  config.optimizer = training.optimizer;
  config.optimizer.learning_rate = training.learning_rate;
  if (optim::default_settings(config.optimizer.name).eps && !config.optimizer.eps) {
    config.optimizer.eps = training.eps;
  }
  config.schedule.name = "constant";
  config.total_steps = training.steps;
  config.global_batch = training.global_batch;
  config.seed = 7;
  config.precision = {.compute = training.compute,
                      .master = training.compute == at::kDouble ? at::kDouble : at::kFloat,
                      .gradient = training.gradient};
  config.reduce_once_per_step = training.reduce_once_per_step;
  config.chunk_bytes = training.chunk_bytes;
  config.window_bytes = training.window_bytes;
  config.recompute = training.recompute;
  config.tiers = training.tiers;
  config.metrics = training.metrics;
  if (training.text_tower) config.metrics.emplace_back("accuracy");
  if (training.model.scores > 0) config.metrics.emplace_back(score_metric(kProblem));
  if (training.model.router.experts > 0) config.num_blocks = training.model.layers;
  config.experts = training.model.router.experts;
  config.routers_drop = training.model.router.capacity_factor > 0;
  config.router_bias_rate = training.router_bias_rate;
  return config;
}

std::unique_ptr<models::Model> make_model(const TinyTraining& training, nn::Builder& build) {
  if (training.adapter) build.adapt(*training.adapter);
  if (training.make_model) return training.make_model(build);
  return models::build_model(training.specification(), build);
}

std::unique_ptr<nn::Builder> make_builder(const TinyTraining& training,
                                          const ParallelContext& context) {
  if (training.make_builder) return training.make_builder(context);
  return parallel::make_builder(context, training.shardings());
}

void multiply_gradients(const std::map<std::string, double>& factors,
                        const nn::ParameterList& parameters) {
  for (const auto& [part, factor] : factors) {
    for (const nn::ParameterHandle& parameter : parameters) {
      if (parameter->name.find(part) == std::string::npos) continue;
      parameter->tensor.register_hook(
          [factor](const at::Tensor& gradient) { return gradient * factor; });
    }
  }
}

ModelSource model_source_of(const TinyTraining& training) {
  return {.shardings = training.shardings(),
          .make = [training](nn::Builder& build) { return make_model(training, build); },
          .compute = training.compute,
          .router_losses = training.model.router_losses};
}

HeadLoss loss_of(const TinyTraining& training, const ParallelContext& context) {
  if (training.loss) return training.loss;
  if (training.text_tower) return contrastive_loss(*training.text_tower, context);
  if (training.model.reconstructs) return reconstruction_loss(*training.model.patches);
  return training.model.patches ? score_loss(kProblem, context) : cross_entropy;
}

memory::OrderOfStages order_of(const TinyTraining& training, int rank, int ranks) {
  ops::register_meta_kernels();
  const auto world = comm::dry_world(rank, ranks);
  const ParallelContext context(*world, strategy_of(training, ranks), at::kMeta);
  const auto build = parallel::make_builder(context, training.shardings());
  const auto model = make_model(training, *build);
  Engine engine(build->parameters(),
                pipelined(*model, model_source_of(training), context,
                          training.model.patches ? loss_of(training, context)
                                                 : HeadLoss(cross_entropy_of_all)),
                context, engine_config(training));
  data::Batch batch = tiny_batch(training, 0, 0, 2);
  if (training.text_tower && training.micro_batch > 0) {
    for (const char* name : {data::kImageGradients, data::kTextGradients}) {
      batch.set(name, at::zeros({2, training.text_tower->features}));
    }
    for (const char* name :
         {data::kScaleGradients, data::kBiasGradients, data::kPairLosses, data::kPairMatches}) {
      batch.set(name, at::zeros({2}));
    }
  }
  if (training.model.patches) {
    for (auto& [name, field] : batch.fields) field.values = field.values.to(at::kMeta);
    engine.step({batch});
    return engine.chunks().order_of_use();
  }
  const auto specification = data::text_specification(data::sequence_length_of(batch), false,
                                                      training.model.encoder_layers > 0);
  const data::Batch dry = specification.make(batch.rows(), at::kMeta);
  engine.step({dry});
  return engine.chunks().order_of_use();
}

// Puts this rank's pieces into whole tensors that all ranks share.
void collect(std::map<std::string, at::Tensor>& whole, const memory::OwnedShard& piece,
             const at::Tensor& values) {
  at::Tensor& tensor = whole[piece.parameter->name];
  if (!tensor.defined()) tensor = at::zeros(piece.parameter->shape, at::kDouble);
  tensor.view(-1).narrow(0, piece.elements.begin, piece.elements.size()).copy_(values);
}

// Of a step, that are not ignored.
double num_labels(const TinyTraining& training, int64_t step) {
  if (training.model.patches) return static_cast<double>(training.global_batch);
  double labels = 0;
  for (int64_t sample = 0; sample < training.global_batch; ++sample) {
    labels += (tiny_batch(training, step, sample, 1).at(data::kLabels) >= 0).sum().item<double>();
  }
  return labels;
}

std::vector<data::Batch> micro_batches(const TinyTraining& training, int64_t step, int64_t begin,
                                       int64_t count) {
  const int64_t micro = training.micro_batch > 0 ? training.micro_batch : count;
  std::vector<data::Batch> batches;
  for (int64_t row = 0; row < count; row += micro) {
    batches.push_back(tiny_batch(training, step, begin + row, std::min(micro, count - row)));
    if (training.fields) training.fields(batches.back());
  }
  return batches;
}

void run_rank(const TinyTraining& training, comm::World& world, TinyResult& result,
              std::mutex& mutex) {
  const ParallelContext context(world, strategy_of(training, world.size()));
  const auto build = make_builder(training, context);
  const auto model = make_model(training, *build);
  if (training.misplace) training.misplace(build->parameters(), context);
  EngineConfig config = engine_config(training);
  if (training.order_known) config.order = order_of(training, world.rank(), world.size());
  Engine engine(build->parameters(),
                pipelined(*model, model_source_of(training), context, loss_of(training, context)),
                context, config);
  engine.chunks().initialise(engine.config().seed);
  for (const nn::ParameterHandle& parameter : engine.chunks().parameters()) {
    const auto found = training.initial.find(parameter->name);
    if (found != training.initial.end()) {
      engine.chunks().load(*parameter, 0, found->second.contiguous().view(-1));
    }
  }
  std::vector<models::Embeddings> vectors;
  const StagedModel comparing = as_in_training(
      pipelined(*model, model_source_of(training), context,
                [&](models::Model& trained, const nn::BlockState& state, const data::Batch& batch,
                    const nn::StepContext& step) {
                  if (!state.output().is_meta()) {
                    vectors.push_back(unit_vectors(trained, state, batch, step, context));
                  }
                  return LossSum{};
                }));
  multiply_gradients(training.gradient_factors, engine.chunks().parameters());
  world.ledger().reset();
  const int64_t share = training.global_batch / context.strategy().dp;
  const int64_t begin = context.coordinate(Axis::dp) * share;
  for (int64_t step = 0; step < training.steps; ++step) {
    std::vector<data::Batch> batches = micro_batches(training, step, begin, share);
    if (training.text_tower && batches.size() > 1) {
      vectors.clear();
      engine.evaluate(
          batches, [] { return false; }, &comparing);
      if (context.holds_stage(context.strategy().num_stages() - 1)) {
        add_pair_gradients(batches, vectors, *training.text_tower, training.compute, context);
      }
    }
    const StepResult done = engine.step(batches);
    if (world.rank() == 0) {
      result.losses.push_back(done.loss);
      result.grad_norms.push_back(done.grad_norm);
      result.metrics.push_back(done.metrics);
    }
  }
  engine.chunks().synchronize();
  // Chunks hold gradients of the sum over labels, divided by the global batch.
  const double to_mean = static_cast<double>(training.global_batch) /
                         std::max<double>(1, num_labels(training, training.steps - 1));
  const std::lock_guard lock(mutex);
  result.traffic[world.rank()] = world.ledger().entries();
  result.tier_traffic[world.rank()] = engine.chunks().tier_traffic();
  engine.chunks().for_each_checkpoint_shard([&](const memory::OwnedShard& piece) {
    collect(result.weights, piece, piece.master());
    if (training.steps == 0 || !piece.parameter->trainable) return;
    collect(result.gradients, piece, piece.gradient() * to_mean);
  });
}

}  // namespace

models::TransformerConfig decoder(const std::string& preset, const nlohmann::json& fields) {
  return models::resolve_model({.preset = preset, .overrides = fields}).transformer;
}

models::TransformerConfig tiny_gpt2(double dropout) {
  return decoder("gpt2-tiny", {{"vocab_size", 97},
                               {"n_positions", 16},
                               {"n_embd", 36},
                               {"n_layer", 2},
                               {"n_head", 3},
                               {"n_inner", 52},
                               {"embd_pdrop", dropout},
                               {"attn_pdrop", dropout},
                               {"resid_pdrop", dropout}});
}

models::TransformerConfig unpadded_gpt2() {
  return decoder("gpt2-tiny", {{"vocab_size", 64},
                               {"n_positions", 16},
                               {"n_embd", 24},
                               {"n_layer", 2},
                               {"n_head", 3},
                               {"n_inner", 48}});
}

models::TransformerConfig tiny_llama(double dropout) {
  return decoder("llama-tiny", {{"vocab_size", 97},
                                {"hidden_size", 36},
                                {"intermediate_size", 52},
                                {"num_hidden_layers", 2},
                                {"num_attention_heads", 6},
                                {"num_key_value_heads", 2},
                                {"max_position_embeddings", 16},
                                {"attention_dropout", dropout}});
}

models::TransformerConfig tiny_gpt_oss(int64_t layers) {
  return decoder("gpt-oss-20b", {{"vocab_size", 61},
                                 {"hidden_size", 28},
                                 {"intermediate_size", 10},
                                 {"num_hidden_layers", layers},
                                 {"num_attention_heads", 6},
                                 {"num_key_value_heads", 2},
                                 {"head_dim", 4},
                                 {"max_position_embeddings", 16},
                                 {"sliding_window", 4},
                                 {"num_local_experts", 6},
                                 {"num_experts_per_tok", 2},
                                 {"initializer_range", 0.3}});
}

std::map<std::string, at::Tensor> adapters_that_add(const TinyTraining& training) {
  nn::DenseBuilder build;
  build.adapt(*training.adapter);
  models::build_model(training.specification(), build);
  std::map<std::string, at::Tensor> weights;
  for (const nn::ParameterHandle& parameter : build.parameters()) {
    const at::Tensor waves =
        (at::arange(parameter->numel(), at::kDouble) * 0.37).sin().mul(0.3).view(parameter->shape);
    for (const char* zeros : {"lora_B.weight", "lora_embedding_A.weight"}) {
      if (parameter->name.ends_with(zeros)) weights[parameter->name] = waves;
    }
    if (parameter->name.ends_with("lora_magnitude_vector.weight")) {
      weights[parameter->name] = waves + 1;
    }
  }
  return weights;
}

Strategy strategy_of(const TinyTraining& training, int ranks) {
  const models::ModelFacts facts = training.text_tower
                                       ? models::facts(training.model, *training.text_tower)
                                       : models::facts(training.model);
  Strategy strategy = training.layout;
  strategy.dp = ranks / (strategy.pp * strategy.sp * strategy.tp);
  strategy.key_value_replicas =
      key_value_replicas(facts.heads, facts.kv_heads, strategy.head_ranks());
  return strategy;
}

models::ModelSpecification TinyTraining::specification() const {
  models::ModelSpecification specification;
  specification.transformer = model;
  specification.text_tower = text_tower;
  return specification;
}

bool TinyTraining::drops() const {
  return model.embedding_dropout > 0 || model.attention_dropout > 0 ||
         model.attention_output_dropout > 0 || model.mlp_dropout > 0 ||
         model.mlp_inner_dropout > 0 || model.final_dropout > 0 ||
         (adapter && adapter->dropout > 0);
}

// The last samples of a step are the longest ones.
int64_t TinyTraining::length_of(int64_t sample) const {
  if (sequence_of) return sequence_of(sample);
  if (!drops() || tokens.defined() || end_of_document) return sequence;
  return sequence - (global_batch - 1 - sample) * 4 / global_batch;
}

namespace {

// Texts of several lengths by hashing, of which the last token stands for the text.
void set_texts(const models::TextTower& texts, data::Batch& batch) {
  const int64_t positions = texts.transformer.positions;
  const auto length_of = [&](int64_t id) { return 3 + id * 5 % (positions - 2); };
  int64_t length = texts.transformer.causal ? 3 : positions;
  for (const int64_t id : batch.sample_ids) length = std::max(length, length_of(id));
  const at::Tensor tokens = at::full({batch.rows(), length}, texts.pad_token, at::kLong);
  const at::Tensor pooling = at::zeros({batch.rows(), length}, at::kDouble);
  for (int64_t row = 0; row < batch.rows(); ++row) {
    const int64_t id = batch.sample_ids[row];
    for (int64_t position = 0; position < length_of(id); ++position) {
      tokens[row][position] =
          static_cast<int64_t>(hash(static_cast<uint64_t>(id * 1000 + position)) %
                               static_cast<uint64_t>(texts.transformer.vocabulary));
    }
    pooling[row][texts.transformer.causal ? length_of(id) - 1 : length - 1] = 1;
  }
  batch.set(data::kTokens, tokens, 1);
  batch.set(data::kPooling, pooling, 1);
}

// Waves, and classes by hashing, masks or texts.
data::Batch tiny_images(const TinyTraining& training, int64_t step, int64_t begin, int64_t count) {
  const nn::PatchEmbeddingOptions& patches = *training.model.patches;
  data::Batch batch{.units = count};
  const at::Tensor targets = at::zeros({count, 1}, at::kDouble);
  const at::Tensor ids = at::zeros({count, 1}, at::kDouble);
  for (int64_t row = 0; row < count; ++row) {
    batch.sample_ids.push_back(step * training.global_batch + begin + row);
    const auto id = static_cast<uint64_t>(batch.sample_ids.back());
    ids[row][0] = static_cast<double>(id + 1);
    if (training.model.scores > 0) {
      targets[row][0] =
          static_cast<double>(hash(id) % static_cast<uint64_t>(training.model.scores));
    }
  }
  const std::vector<int64_t> shape{count, patches.channels, patches.height, patches.width};
  const at::Tensor pixel =
      at::arange(patches.channels * patches.height * patches.width, at::kDouble);
  batch.set(data::kPixels, (ids * 0.7 + pixel * (ids + 3) * 0.11).sin().view(shape));
  if (training.text_tower) {
    if (!training.texts_given) set_texts(*training.text_tower, batch);
    return batch;
  }
  if (!training.model.reconstructs) {
    batch.set(data::kTargets, targets);
    return batch;
  }
  data::mask_patches(batch, {.rows = patches.rows(), .columns = patches.columns(), .seed = 4});
  return batch;
}

}  // namespace

data::Batch tiny_batch(const TinyTraining& training, int64_t step, int64_t begin, int64_t count) {
  if (training.model.patches) return tiny_images(training, step, begin, count);
  data::Batch batch;
  int64_t sequence = count > 0 ? 1 : training.sequence;
  for (int64_t row = 0; row < count; ++row) {
    sequence = std::max(sequence, training.length_of(begin + row));
  }
  batch.set(data::kTokens, at::empty({count, sequence}, at::kLong), 1);
  batch.set(data::kLabels, at::empty({count, sequence}, at::kLong), 1);
  auto inputs = batch.at(data::kTokens).accessor<int64_t, 2>();
  auto labels = batch.at(data::kLabels).accessor<int64_t, 2>();
  const auto vocabulary = static_cast<uint64_t>(training.model.vocabulary);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t in_step = begin + row;
    const int64_t id = (training.one_batch ? 0 : step * training.global_batch) + in_step;
    batch.sample_ids.push_back(step * training.global_batch + in_step);
    const auto token = [&](int64_t position) {
      if (training.tokens.defined()) return training.tokens[in_step][position].item<int64_t>();
      return static_cast<int64_t>(hash(static_cast<uint64_t>(id * 1000 + position)) % vocabulary);
    };
    const int64_t length = training.length_of(in_step);
    batch.units += length;
    for (int64_t position = 0; position < sequence; ++position) {
      inputs[row][position] = position < length ? token(position) : 0;
      labels[row][position] =
          position >= length || (training.ignored && training.ignored(in_step, position))
              ? -100
              : token(position + 1);
    }
  }
  if (batch.units < count * sequence && !training.model.causal) {
    batch.set(data::kDocuments, at::zeros_like(batch.at(data::kTokens)));
    for (int64_t row = 0; row < count; ++row) {
      const int64_t length = training.length_of(begin + row);
      batch.at(data::kDocuments)[row].narrow(0, length, sequence - length).fill_(-1);
    }
  }
  if (training.end_of_document) {
    batch.set(data::kDocuments,
              data::number_documents(batch.at(data::kTokens), *training.end_of_document));
  }
  return batch;
}

TinyResult train_tiny(const TinyTraining& training, int ranks) {
  TinyResult result;
  result.traffic.resize(ranks);
  result.tier_traffic.resize(ranks);
  std::mutex mutex;
  run_ranks(ranks, [&](comm::World& world) { run_rank(training, world, result, mutex); });
  return result;
}

void expect_same(const TinyResult& result, const TinyResult& reference, double tolerance,
                 const TinyTraining& training) {
  ASSERT_EQ(result.losses.size(), reference.losses.size());
  for (size_t step = 0; step < reference.losses.size(); ++step) {
    EXPECT_LE(std::abs(result.losses[step] - reference.losses[step]),
              tolerance * std::abs(reference.losses[step]))
        << "loss of step " << step + 1;
  }
  double all_gradients = 0;
  for (const auto& [name, gradient] : reference.gradients) {
    all_gradients += gradient.square().sum().item<double>();
  }
  for (const auto& [name, gradient] : reference.gradients) {
    const double norm = gradient.norm().item<double>();
    EXPECT_LE((result.gradients.at(name) - gradient).norm().item<double>(),
              tolerance * std::max(norm, 1e-3 * std::sqrt(all_gradients)))
        << "gradient of " << name;
  }
  const auto steps = static_cast<double>(training.steps);
  for (const auto& [name, weight] : reference.weights) {
    const double norm = weight.norm().item<double>();
    const double allowed =
        norm + steps * training.learning_rate * std::sqrt(static_cast<double>(weight.numel()));
    EXPECT_LE((result.weights.at(name) - weight).norm().item<double>(), tolerance * allowed)
        << "weight " << name;
  }
}

}  // namespace colossal::test
