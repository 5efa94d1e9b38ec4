// Quantized model folders: writing and using them.
#include "colossal/serve/folder_quantization.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "colossal/base/error.h"
#include "colossal/checkpoint/weights.h"
#include "colossal/io/file.h"
#include "colossal/io/json.h"
#include "colossal/serve/evaluate.h"
#include "colossal/serve/inference_model.h"
#include "tests/serve/random_model.h"
#include "tests/serve/random_weights.h"
#include "tests/serve/sharded_models.h"
#include "tests/support/run_ranks.h"
#include "tests/support/whole_pass.h"

namespace colossal::serve {
namespace {

using Type = ops::Quantization::Type;
using testing::HasSubstr;

const ops::Quantization kInt8{.type = Type::int8};
const ops::Quantization kFp8{.type = Type::fp8};
const ops::Quantization kInt4{.type = Type::int4, .group = 32, .zero_point = true};
const ops::Quantization kSymmetricInt4{.type = Type::int4, .group = 32};

models::ModelSpecification llama_of_groups() {
  return models::resolve_model({.preset = "llama-tiny",
                                .overrides = {{"num_hidden_layers", 3},
                                              {"hidden_size", 64},
                                              {"head_dim", 16},
                                              {"num_attention_heads", 4},
                                              {"num_key_value_heads", 4},
                                              {"intermediate_size", 128},
                                              {"vocab_size", 97},
                                              {"max_position_embeddings", 64}}});
}

// Its products are stored [in, out], those of queries, keys and values as one.
models::ModelSpecification gpt2_of_groups() {
  return models::resolve_model({.preset = "gpt2-tiny",
                                .overrides = {{"n_layer", 3},
                                              {"n_embd", 64},
                                              {"n_head", 4},
                                              {"n_inner", 192},
                                              {"vocab_size", 97},
                                              {"n_positions", 64}}});
}

class QuantizedFolder : public testing::Test {
 protected:
  QuantizedFolder() {
    at::set_num_threads(1);  // more threads only slow down such small tensors
    for (size_t i = 0; i < text_.size(); ++i) text_[i] = static_cast<int32_t>(i * i * 5 % 50);
  }

  models::ModelSpecification with_weights(models::ModelSpecification specification) {
    const std::filesystem::path folder = folder_.path() / fmt::format("model-{}", next_++);
    std::filesystem::create_directory(folder);
    test::write_random_weights(specification, folder);
    io::write_file_atomically(folder / "config.json", specification.config.dump());
    return specification;
  }

  models::ModelSpecification quantized(const models::ModelSpecification& specification,
                                       const FolderQuantization& options) {
    const std::filesystem::path folder = folder_.path() / fmt::format("quantized-{}", next_++);
    const data::Corpus text = data::Corpus::from_tokens(text_);
    quantize_folder(specification, &text, options, folder, {{"note.txt", "beside"}});
    EXPECT_EQ(io::read_file(folder / "note.txt"), "beside");
    return models::resolve_model({.path = folder.string()});
  }

  void each_family(const std::function<void(const models::ModelSpecification&)>& run) {
    const nlohmann::json families = io::read_json(std::filesystem::path(COLOSSAL_TEST_SOURCE_DIR) /
                                                  "tests" / "support" / "families.json");
    EXPECT_GE(families.size(), 25);
    for (const auto& [family, fields] : families.items()) {
      if (family == "gpt_oss") continue;  // which is refused
      if (family == "gpt2") continue;     // which has sizes that no folder holds: gpt2_of_groups()
      SCOPED_TRACE(family);
      run(with_weights(family_of(family, fields)));
    }
  }

  static at::Tensor logits(const models::ModelSpecification& specification,
                           const InferenceOptions& options) {
    const at::NoGradGuard no_grad;
    const InferenceModel model(specification, options);
    EXPECT_EQ(model.is_quantized(), options.as_stored);
    const at::Tensor tokens = at::arange(24, at::kLong).view({2, 12}) * 7 % 90;
    return logits_of(*model, tokens, nn::make_step_context(2, 12, at::kCPU));
  }
  // Returns the loss of the text.
  double loss(const models::ModelSpecification& specification, const Strategy& strategy) const {
    double found = 0;
    test::run_ranks(strategy.world_size(), [&](comm::World& world) {
      at::set_num_threads(1);
      const InferenceModel model(specification,
                                 {.type = at::kDouble,
                                  .as_stored = true,
                                  .strategy = test::for_model(strategy, specification.facts)},
                                 world);
      const Evaluation here = evaluate(*model, data::Corpus::from_tokens(text_),
                                       {.sequence_length = 13, .batch = 4, .ranks = model.ranks()});
      if (world.rank() == 0) found = here.loss();
    });
    return found;
  }

  static double difference(const at::Tensor& found, const at::Tensor& expected) {
    return ((found - expected).norm() / expected.norm()).item<double>();
  }

  static void expect_rounded(const models::ModelSpecification& before,
                             const models::ModelSpecification& after,
                             const ops::Quantization& how) {
    const checkpoint::WeightFolder from(before.weights), to(after.weights);
    nn::DenseBuilder build;
    models::build_model(before, build);
    int rounded = 0;
    for (const nn::ParameterHandle& parameter : build.parameters()) {
      const TensorSlice slice = models::slice_in_model(before, parameter->name);
      const at::Tensor numbers = checkpoint::read_parameter(from, *parameter, slice);
      const at::Tensor found = checkpoint::read_parameter(to, *parameter, slice);
      if (!checkpoint::stored_quantization(to, *parameter, slice)) {
        EXPECT_TRUE(found.equal(numbers)) << parameter->name;
        continue;
      }
      ++rounded;
      const auto rows_of = [&](const at::Tensor& weight) {
        const bool in_out = parameter->product == nn::WeightOrder::in_out;
        return in_out ? weight.t().contiguous() : weight.flatten(0, -2);
      };
      const at::Tensor rows = rows_of(numbers);
      ops::Quantization of_it = how;
      if (rows.size(1) % std::max<int64_t>(1, how.group) != 0) of_it.group = 0;
      EXPECT_TRUE(rows_of(found).equal(ops::dequantize(ops::quantize(rows, of_it), at::kFloat)))
          << parameter->name;
    }
    EXPECT_GE(rounded, 4 * before.facts.layers);
  }

  const InferenceOptions numbers_{.type = at::kDouble};
  const InferenceOptions as_stored_{.type = at::kDouble, .as_stored = true};
  std::vector<int32_t> text_ = std::vector<int32_t>(700);
  const test::TemporaryDirectory folder_;
  int next_ = 0;
};

// Each matrix is quantized as it is when weights are quantized while they are read.
TEST_F(QuantizedFolder, HoldsTheNearestNumbersOfEveryFamily) {
  each_family([&](const models::ModelSpecification& specification) {
    for (const ops::Quantization& how : {kInt8, kInt4, kFp8}) {
      const models::ModelSpecification rounded = quantized(specification, {.how = how});
      const at::Tensor expected = logits(rounded, numbers_);
      EXPECT_LT(difference(logits(rounded, as_stored_), expected), 1e-12);
      EXPECT_GT(difference(logits(specification, numbers_), expected), 1e-4);
      expect_rounded(specification, rounded, how);
    }
  });
}

TEST_F(QuantizedFolder, HoldsTheNearestNumbersOfProductsStoredInOut) {
  const models::ModelSpecification specification = with_weights(gpt2_of_groups());
  for (const ops::Quantization& how : {kInt8, kInt4, kSymmetricInt4}) {
    const models::ModelSpecification rounded = quantized(specification, {.how = how});
    const at::Tensor expected = logits(rounded, numbers_);
    EXPECT_LT(difference(logits(rounded, as_stored_), expected), 1e-12);
    EXPECT_GT(difference(logits(specification, numbers_), expected), 1e-4);
    expect_rounded(specification, rounded, how);
    const nlohmann::json config =
        io::read_json(rounded.weights / "config.json").at("quantization_config");
    EXPECT_EQ(config.at("quant_method"), "gptq");
    EXPECT_EQ(config.at("bits"), how.type == Type::int4 ? 4 : 8);
    EXPECT_EQ(config.at("group_size"), how.group > 0 ? how.group : -1);
    EXPECT_EQ(config.at("sym"), !how.zero_point);
  }
}

TEST_F(QuantizedFolder, IsUsedAsItIsByRanks) {
  text_.resize(40);
  for (const models::ModelSpecification& specification :
       {with_weights(llama_of_groups()), with_weights(test::qwen_of_few_experts()),
        with_weights(gpt2_of_groups())}) {
    for (const ops::Quantization& how : {kInt8, kInt4, kSymmetricInt4, kFp8}) {
      if (specification.transformer.stored_in_out && how.type == Type::fp8) continue;  // refused
      const models::ModelSpecification rounded = quantized(specification, {.how = how});
      const double expected = loss(rounded, {});
      EXPECT_GT(std::abs(loss(specification, {}) - expected), 1e-6);
      for (Strategy strategy : {test::tensor_strategy(TensorMode::one_d, 2),
                                test::tensor_strategy(TensorMode::one_d, 1, 1, 2)}) {
        EXPECT_NEAR(loss(rounded, strategy), expected, 1e-10 * expected);
        if (specification.facts.experts == 0 || strategy.tp == 1) continue;
        strategy.ep = 2;
        EXPECT_NEAR(loss(rounded, strategy), expected, 1e-10 * expected);
      }
    }
  }
}

// With fine quantization the model stays nearly the same: the AWQ factors are applied at the right
// places.
TEST_F(QuantizedFolder, FactorsOfInputsChangeNothingElse) {
  const ops::Quantization fine{.type = Type::int8, .group = 32};
  const auto expect = [&](const models::ModelSpecification& specification) {
    const at::Tensor expected = logits(specification, numbers_);
    const FolderQuantization nearest{.how = fine, .sequence_length = 14};
    FolderQuantization awq = nearest;
    awq.calibration = Calibration::awq;
    EXPECT_LT(difference(logits(quantized(specification, awq), numbers_), expected),
              2 * difference(logits(quantized(specification, nearest), numbers_), expected) + 0.01);
  };
  each_family(expect);
  expect(with_weights(gpt2_of_groups()));
}

TEST_F(QuantizedFolder, CalibratedNumbersChangeTheModelLess) {
  for (const models::ModelSpecification& specification :
       {with_weights(llama_of_groups()), with_weights(test::qwen_of_few_experts()),
        with_weights(gpt2_of_groups())}) {
    const auto error = [&](Calibration calibration) {
      const models::ModelSpecification rounded = quantized(
          specification,
          {.how = kInt4, .calibration = calibration, .samples = 20, .sequence_length = 32});
      return std::abs(loss(rounded, {}) - loss(specification, {}));
    };
    const double nearest = error(Calibration::none);
    EXPECT_LT(error(Calibration::gptq), nearest);
    EXPECT_GT(error(Calibration::awq), 0);
  }
}

TEST_F(QuantizedFolder, RefusesWhatItCannotRound) {
  const auto refusal = [&](const std::function<void()>& run) -> std::string {
    try {
      run();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  const models::ModelSpecification llama = with_weights(llama_of_groups());
  const models::ModelSpecification gpt2 = with_weights(gpt2_of_groups());
  EXPECT_THAT(refusal([&] { quantized(gpt2, {.how = kFp8}); }),
              HasSubstr("use --quantize=int8 or int4"));
  ops::Quantization wide = kInt4;
  wide.group = 96;
  EXPECT_THAT(refusal([&] { quantized(gpt2, {.how = wide}); }),
              HasSubstr("--quantize-group=96: the gptq format"));
  EXPECT_THAT(refusal([&] { quantized(with_weights(tiny()), {.how = kInt8}); }),
              HasSubstr("sizes that are multiples of 32"));
  const nlohmann::json families = io::read_json(std::filesystem::path(COLOSSAL_TEST_SOURCE_DIR) /
                                                "tests" / "support" / "families.json");
  EXPECT_THAT(refusal([&] {
                quantized(with_weights(family_of("gpt_oss", families.at("gpt_oss"))),
                          {.how = kInt8});
              }),
              HasSubstr("the experts of a layer as one tensor"));
  const models::ModelSpecification rounded = quantized(llama, {.how = kInt8});
  EXPECT_THAT(refusal([&] { quantized(rounded, {.how = kInt4}); }),
              HasSubstr("quant_method = \"compressed-tensors\""));
  text_.resize(30);
  EXPECT_THAT(refusal([&] { quantized(llama, {.how = kInt4, .calibration = Calibration::gptq}); }),
              HasSubstr("30 tokens, but calibration needs rows of 2048"));
  InferenceOptions options = as_stored_;
  options.tiers.parameters = {.host = 1};
  EXPECT_THAT(refusal([&] { const InferenceModel model(rounded, options); }),
              HasSubstr("--quantize=none"));
  options.as_stored = false;
  EXPECT_EQ(refusal([&] { const InferenceModel model(rounded, options); }), "accepted");
  EXPECT_THAT(refusal([&] { loss(rounded, test::tensor_strategy(TensorMode::two_d, 4)); }),
              HasSubstr("--quantize=none"));
}

TEST_F(QuantizedFolder, SaysInItsConfigWhatItHolds) {
  models::ModelSpecification specification = test::qwen_of_few_experts();
  const models::ModelSpecification rounded = quantized(with_weights(specification), {.how = kInt4});
  const nlohmann::json config =
      io::read_json(rounded.weights / "config.json").at("quantization_config");
  EXPECT_EQ(config.at("quant_method"), "compressed-tensors");
  EXPECT_EQ(config.at("format"), "pack-quantized");
  const std::vector<std::string> ignored = config.at("ignore");
  EXPECT_THAT(ignored, testing::IsSupersetOf({"lm_head", "model.layers.1.mlp.gate"}));
  EXPECT_THAT(ignored, testing::Not(testing::Contains(HasSubstr("q_proj"))));
  // 36 inputs are no multiple of groups of 32: all layers have one scale per output.
  ASSERT_EQ(config.at("config_groups").size(), 1);
  const nlohmann::json weights = config.at("config_groups").at("group_0").at("weights");
  EXPECT_EQ(weights.at("strategy"), "channel");
  EXPECT_EQ(weights.at("symmetric"), false);
  EXPECT_EQ(weights.at("num_bits"), 4);
}

}  // namespace
}  // namespace colossal::serve
