// Against an independent oracle: transformers' models with torch.optim.AdamW on the same batches.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "colossal/io/safetensors.h"
#include "colossal/models/families.h"
#include "colossal/nn/dense_builder.h"
#include "tests/booster/oracle.h"
#include "tests/support/run_ranks.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tiny_training.h"

namespace colossal::test {
namespace {

namespace fs = std::filesystem;

// Gives each parameter its values in the folder.
void load(const models::ModelSpecification& specification, const nn::ParameterList& parameters,
          at::ScalarType type) {
  const io::SafetensorsReader file(specification.weights / "model.safetensors");
  for (const nn::ParameterHandle& parameter : parameters) {
    parameter->tensor =
        read_parameter(file, "", models::slice_in_files(specification, parameter->name), type);
  }
}

// What transformers makes of one model.
struct Oracle {
  std::string family;
  fs::path directory;
  at::ScalarType type;
  int64_t steps;
  double eps;
};

// Several of them, by one run of Python: its start takes longer than they do.
class Oracles {
 public:
  Oracles(const std::vector<std::string>& families, at::ScalarType type, int64_t steps,
          double eps = 1e-8) {
    run_oracle("transformers_oracle.py", folder_.path(),
               fmt::format("{} {} {} {}", type == at::kDouble ? "float64" : "float32", steps, eps,
                           fmt::join(families, " ")));
    for (const std::string& family : families) {
      all_.push_back({family, folder_.path() / family, type, steps, eps});
    }
  }

  const std::vector<Oracle>& all() const { return all_; }

 private:
  TemporaryDirectory folder_;
  std::vector<Oracle> all_;
};

void expect_logits(const Oracle& oracle, double tolerance) {
  const io::SafetensorsReader result(oracle.directory / "result.safetensors");
  const io::SafetensorsReader batch(oracle.directory / "batch.safetensors");
  const auto specification = models::resolve_model({.path = (oracle.directory / "model").string()});
  nn::DenseBuilder build;
  const auto model = models::build_model(specification, build);
  load(specification, build.parameters(), oracle.type);
  at::NoGradGuard no_grad;
  const at::Tensor tokens = read_tensor(batch, "tokens", at::kLong).narrow(1, 0, 10);
  const at::Tensor logits = model->logits(tokens, nn::make_step_context(12, 10, at::kCPU));
  const at::Tensor expected = read_tensor(result, "first_logits", oracle.type);
  EXPECT_LE((logits - expected).abs().max().item<double>(), tolerance);
}

// whole: a step is one micro-batch, as of transformers, over which statistics are taken.
void expect_like_oracle(const Oracle& oracle, double tolerance, bool whole = false) {
  const io::SafetensorsReader result(oracle.directory / "result.safetensors");
  const io::SafetensorsReader batch(oracle.directory / "batch.safetensors");
  TinyTraining training;
  training.steps = oracle.steps;
  training.learning_rate = 3e-3;
  training.eps = oracle.eps;
  training.compute = training.gradient = oracle.type;
  training.tokens = read_tensor(batch, "tokens", at::kLong);
  const auto specification = models::resolve_model({.path = (oracle.directory / "model").string()});
  training.model = specification.decoder;
  nn::DenseBuilder names;
  const auto model = models::build_model(specification, names);  // registers the parameters
  load(specification, names.parameters(), oracle.type);
  TinyResult expected;
  const at::Tensor losses = read_tensor(result, "losses", at::kDouble);
  expected.losses.assign(losses.const_data_ptr<double>(),
                         losses.const_data_ptr<double>() + losses.numel());
  TinyResult first;
  for (const nn::ParameterHandle& parameter : names.parameters()) {
    const TensorSlice slice = models::slice_in_files(specification, parameter->name);
    training.initial[parameter->name] = parameter->tensor;
    expected.weights[parameter->name] =
        read_parameter(result, "weight.", slice, oracle.type).to(at::kDouble);
    first.gradients[parameter->name] =
        read_parameter(result, "first_gradient.", slice, oracle.type).to(at::kDouble);
  }
  struct Layout {
    int ranks, zero, tp;
  };
  for (const auto& [ranks, zero, tp] :
       std::vector<Layout>{{1, 0, 1}, {2, 0, 1}, {3, 1, 1}, {4, 1, 1}, {3, 0, 3}}) {
    training.layout = {.tp = tp, .zero = zero};
    training.micro_batch = ranks == 3 && !whole ? 3 : 0;
    TRACED_CASE(fmt::format("{} ranks, tp {}, stage {}", ranks, tp, zero));
    training.steps = oracle.steps;
    expect_same(train_tiny(training, ranks), expected, tolerance, training);
    training.steps = 1;
    first.losses = {expected.losses.front()};
    expect_same(train_tiny(training, ranks), first, tolerance, training);
  }
}

TEST(TransformersOracle, Fp64) {
  const Oracles oracles({"gpt2"}, at::kDouble, 50);
  expect_like_oracle(oracles.all().front(), 1e-9);
}

// transformers keeps the rotary tables in fp32. Five steps: AdamW divides gradients by their own
// size, which makes of such a difference more with every step.
TEST(TransformersOracle, LlamaAndQwen2Fp64) {
  const Oracles oracles({"llama", "llama3", "qwen2"}, at::kDouble, 5, /*eps=*/1e-5);
  for (const Oracle& oracle : oracles.all()) {
    TRACED_CASE(oracle.family);
    expect_logits(oracle, 1e-7);
    expect_like_oracle(oracle, 1e-7);
  }
}

// transformers also takes a router's softmax in fp32.
TEST(TransformersOracle, ExpertsFp64) {
  const Oracles oracles({"mixtral", "qwen3_moe"}, at::kDouble, 5, /*eps=*/1e-5);
  for (const Oracle& oracle : oracles.all()) {
    TRACED_CASE(oracle.family);
    expect_logits(oracle, 1e-7);
    expect_like_oracle(oracle, 1e-6);
  }
}

// Its loss that balances experts is of all layers together, and summed in fp32.
TEST(TransformersOracle, BalancedExpertsFp64) {
  const Oracles oracles({"mixtral.balanced", "qwen3_moe.balanced"}, at::kDouble, 5, /*eps=*/1e-5);
  for (const Oracle& oracle : oracles.all()) {
    TRACED_CASE(oracle.family);
    expect_like_oracle(oracle, 2e-6, /*whole=*/true);
  }
}

// The gradient of the keys' bias is zero but for rounding. AdamW divides it by its own size, so
// with an eps below that size the bias walks at random, in any two programs differently.
TEST(SlowTransformersOracle, Fp32) {
  const Oracles oracles({"gpt2"}, at::kFloat, 50, /*eps=*/1e-5);
  expect_logits(oracles.all().front(), 1e-5);
  expect_like_oracle(oracles.all().front(), 1e-4);
}

}  // namespace
}  // namespace colossal::test
