// Every family, and every switch of its config.json, against transformers: logits, loss, gradients
// and weights after three steps of AdamW in fp64, from folders that transformers wrote.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <filesystem>
#include <iostream>

#include "colossal/comm/world.h"
#include "colossal/data/text_batch.h"
#include "colossal/io/json.h"
#include "colossal/io/safetensors.h"
#include "colossal/models/families.h"
#include "colossal/nn/dense_builder.h"
#include "tests/engine/oracle.h"
#include "tests/support/contiguous_key_values.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tiny_training.h"
#include "tests/support/whole_pass.h"

namespace colossal::test::family_oracle {
namespace {

namespace fs = std::filesystem;

// What transformers makes of these variants of families; none: of all of them.
class Oracle {
 public:
  explicit Oracle(const std::string& variants = "") {
    run_oracle("family_oracle.py", folder_.path(), variants);
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (fs::exists(entry.path() / "result.safetensors")) directories_.push_back(entry.path());
    }
    std::ranges::sort(directories_);
  }

  const std::vector<fs::path>& directories() const { return directories_; }
  nlohmann::json refused() const { return io::read_json(folder_.path() / "refused.json"); }

 private:
  TemporaryDirectory folder_;
  std::vector<fs::path> directories_;
};

void expect_close(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  const double error = (found - expected).norm().item<double>();
  // 1e-10 for most; transformers' BLOOM has the root of 2 / pi to nine digits.
  EXPECT_LE(error, 1e-9 * (1 + expected.norm().item<double>())) << what;
}

// Whether a sequence of this length has other rotary frequencies than shorter ones: kept keys are
// turned by those of their time, in transformers too, so that logits are not those of one pass.
bool frequencies_change(const models::TransformerConfig& config, int64_t sequence) {
  return std::ranges::any_of(config.attention, [&](const models::LayerAttention& attention) {
    return attention.rotary.depends_on_length() && sequence > attention.rotary.original_positions;
  });
}

// Logits of each position from those before it, whose keys and values are kept: a few at once, then
// one by one, as text is generated.
at::Tensor generated_logits(models::Model& model, int64_t layers, const at::Tensor& tokens) {
  const at::NoGradGuard no_grad;
  const int64_t batch = tokens.size(0), sequence = tokens.size(1);
  ContiguousKeyValues cache(layers, sequence);
  std::vector<at::Tensor> logits;
  for (int64_t begin = 0; begin < sequence;) {
    const int64_t count = begin == 0 ? 5 : 1;
    nn::StepContext context = nn::make_step_context(batch, count, at::kCPU, begin);
    context.services.key_values = &cache;
    logits.push_back(logits_of(model, tokens.narrow(1, begin, count), context));
    begin += count;
  }
  return at::cat(logits, 1);
}

// Gives the batch the sources that transformers read, if the model is an encoder-decoder.
void add_sources(const io::SafetensorsReader& result, data::Batch& batch) {
  for (const char* field : {data::kSource, data::kSourceDocuments}) {
    if (!result.find(field)) continue;
    batch.set(field, read_tensor(result, field, at::kDouble).to(at::kLong));
  }
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
            .requires_grad_(true);
    ASSERT_EQ(parameter->tensor.sizes(), parameter->shape) << parameter->name;
    parameters += parameter->numel();
  }
  EXPECT_EQ(parameters, specification.facts.parameters);
  const at::Tensor tokens = read_tensor(result, "tokens", at::kDouble).to(at::kLong);
  const int64_t batch = tokens.size(0), sequence = tokens.size(1) - 1;
  const at::Tensor inputs = tokens.narrow(1, 0, sequence), labels = tokens.narrow(1, 1, sequence);
  data::Batch read = data::text_batch(inputs, labels, std::vector<int64_t>(batch));
  add_sources(result, read);
  const nn::StepContext context = model->context_of(read, {}, {});
  expect_close(logits_of(*model, read, context), read_tensor(result, "logits", at::kDouble),
               "logits");
  const at::Tensor loss =
      loss_sum_of(*model, read, labels, context) / static_cast<double>(labels.numel());
  expect_close(loss.reshape({}), read_tensor(result, "loss", at::kDouble), "loss");
  if (specification.facts.is_decoder() &&
      !frequencies_change(specification.transformer, sequence)) {
    expect_close(generated_logits(*model, specification.facts.layers, inputs),
                 read_tensor(result, "logits", at::kDouble), "logits with a cache");
  }
  torch::autograd::backward({loss}, {});
  for (const nn::ParameterHandle& parameter : build.parameters()) {
    if (!parameter->trainable) continue;
    expect_close(
        parameter->tensor.grad(),
        read_parameter(result, "gradient.", models::slice_in_files(specification, parameter->name),
                       at::kDouble),
        parameter->name);
  }
}

// Three steps of AdamW from the same weights on the same tokens.
void expect_trains_like_transformers(const fs::path& directory) {
  const models::ModelSpecification specification =
      models::resolve_model({.path = (directory / "model").string(), .dropout = 0});
  const io::SafetensorsReader weights(directory / "model" / "model.safetensors");
  const io::SafetensorsReader result(directory / "result.safetensors");
  TinyTraining training;
  training.model = specification.transformer;
  training.tokens = read_tensor(result, "tokens", at::kDouble).to(at::kLong);
  training.global_batch = training.tokens.size(0);
  training.sequence = training.tokens.size(1) - 1;
  training.eps = 1e-5;
  training.fields = [&](data::Batch& batch) { add_sources(result, batch); };
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

// How many there are, and those that ours refuses, each with its reason.
struct Outcome {
  int variants = 0;
  std::map<std::string, std::string> refused;
};

Outcome compare_all(const Oracle& oracle) {
  Outcome outcome;
  for (const fs::path& directory : oracle.directories()) {
    SCOPED_TRACE(directory.filename().string());
    ++outcome.variants;
    try {
      expect_like_transformers(directory);
      expect_trains_like_transformers(directory);
    } catch (const ConfigError& error) {
      outcome.refused[directory.filename().string()] = error.what();
    }
  }
  return outcome;
}

TEST(FamilyOracle, EveryFamily) {
  const Oracle oracle(
      "gpt2 llama qwen2 qwen3 mistral gemma gemma2 gemma3_text phi3 olmo2 glm4 cohere cohere2 "
      "smollm3 gptj gpt_neox opt bloom falcon mixtral qwen3_moe qwen2_moe deepseek_v2 deepseek_v3 "
      "gpt_oss bert roberta xlm-roberta distilbert modernbert bart t5 mt5");
  const Outcome outcome = compare_all(oracle);
  EXPECT_EQ(outcome.variants, 33);
  for (const auto& [variant, reason] : outcome.refused) ADD_FAILURE() << variant << ": " << reason;
}

// Refused are at most a tenth, and none without a reason that names the field.
TEST(SlowFamilyOracle, EverySwitch) {
  const Oracle oracle;
  const Outcome outcome = compare_all(oracle);
  for (const auto& [variant, reason] : outcome.refused) {
    std::cout << variant << ": " << reason << "\n";
    EXPECT_NE(reason.find("config.json"), std::string::npos) << variant << ": " << reason;
  }
  std::cout << outcome.refused.size() << " of " << outcome.variants << " are refused; "
            << oracle.refused().size() << " transformers itself refuses\n";
  EXPECT_LE(outcome.refused.size() * 10, static_cast<size_t>(outcome.variants));
}

}  // namespace
}  // namespace colossal::test::family_oracle
