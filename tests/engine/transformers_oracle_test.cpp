// Against an independent oracle: transformers' models with torch.optim.AdamW on the same batches.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "colossal/base/error.h"
#include "colossal/io/safetensors.h"
#include "colossal/models/families.h"
#include "colossal/nn/dense_builder.h"
#include "tests/engine/oracle.h"
#include "tests/support/run_ranks.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tiny_training.h"
#include "tests/support/whole_pass.h"

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

struct OracleRun {
  std::string family;
  int64_t steps = 5;
  double eps = 1e-5;
};

// Several of them, by one run of Python: its start takes longer than they do.
class Oracles {
 public:
  Oracles(const std::vector<OracleRun>& runs, at::ScalarType type) {
    std::string arguments = type == at::kDouble ? "float64" : "float32";
    for (const OracleRun& run : runs) {
      arguments += fmt::format(" {}:{}:{}", run.family, run.steps, run.eps);
      all_.push_back({run.family, folder_.path() / run.family, type, run.steps, run.eps});
    }
    run_oracle("transformers_oracle.py", folder_.path(), arguments);
  }

  const Oracle& of(const std::string& family) const {
    const auto found = std::ranges::find(all_, family, &Oracle::family);
    COLOSSAL_CHECK(found != all_.end(), "no oracle of {}", family);
    return *found;
  }

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
  const at::Tensor logits = logits_of(*model, tokens, nn::make_step_context(12, 10, at::kCPU));
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
  training.model = specification.transformer;
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

class TransformersOracle : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    oracles_ = std::make_unique<Oracles>(std::vector<OracleRun>{{"gpt2", 50, 1e-8},
                                                                {"llama"},
                                                                {"llama3"},
                                                                {"qwen2"},
                                                                {"mixtral"},
                                                                {"qwen3_moe"},
                                                                {"mixtral.balanced"},
                                                                {"qwen3_moe.balanced"}},
                                         at::kDouble);
  }
  static void TearDownTestSuite() { oracles_.reset(); }

  static const Oracle& of(const std::string& family) { return oracles_->of(family); }

 private:
  static inline std::unique_ptr<Oracles> oracles_;
};

TEST_F(TransformersOracle, Fp64) {
  expect_like_oracle(of("gpt2"), 1e-9);
}

// transformers keeps the rotary tables in fp32. Five steps: AdamW divides gradients by their own
// size, which makes of such a difference more with every step.
TEST_F(TransformersOracle, LlamaAndQwen2Fp64) {
  for (const char* family : {"llama", "llama3", "qwen2"}) {
    TRACED_CASE(family);
    expect_logits(of(family), 1e-7);
    expect_like_oracle(of(family), 1e-7);
  }
}

// transformers also takes a router's softmax in fp32.
TEST_F(TransformersOracle, ExpertsFp64) {
  for (const char* family : {"mixtral", "qwen3_moe"}) {
    TRACED_CASE(family);
    expect_logits(of(family), 1e-7);
    expect_like_oracle(of(family), 1e-6);
  }
}

// Its loss that balances experts is of all layers together, and summed in fp32.
TEST_F(TransformersOracle, BalancedExpertsFp64) {
  for (const char* family : {"mixtral.balanced", "qwen3_moe.balanced"}) {
    TRACED_CASE(family);
    expect_like_oracle(of(family), 2e-6, /*whole=*/true);
  }
}

// The gradient of the keys' bias is zero but for rounding. AdamW divides it by its own size, so
// with an eps below that size the bias walks at random, in any two programs differently.
TEST(SlowTransformersOracle, Fp32) {
  const Oracles oracles({{"gpt2", 50}}, at::kFloat);
  expect_logits(oracles.of("gpt2"), 1e-5);
  expect_like_oracle(oracles.of("gpt2"), 1e-4);
}

}  // namespace
}  // namespace colossal::test
