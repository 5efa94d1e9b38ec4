// Adapters chosen by request: a request gets the same answer as from a model into which its adapter
// was merged, whatever other requests run at the same time.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <set>

#include "colossal/io/json.h"
#include "tests/serve/random_model.h"
#include "tests/support/whole_pass.h"

namespace colossal::serve {
namespace {

constexpr int64_t kRank = 3;
constexpr double kScale = 1.5;

at::Tensor random_matrix(std::vector<int64_t> shape, const std::string& name, at::ScalarType type) {
  const at::Tensor matrix = at::empty(shape, type);
  ops::fill_normal(matrix.view(-1), 0, ops::parameter_stream(5, name), 0, 0.3);
  return matrix;
}

nn::Parameter* find_weight_of(const RandomModel& model, const std::string& product) {
  for (const nn::ParameterHandle& parameter : model.build.parameters()) {
    if (parameter->name == product + ".weight") return &*parameter;
  }
  return nullptr;
}

// Whether the rows of a weight are outputs: a head has an output for each row of its table, an
// embedding for each column.
bool makes_outputs_of_rows(const nn::Parameter& weight) {
  return weight.role == nn::ParameterRole::head_table || weight.product == nn::WeightOrder::out_in;
}

// Makes an adapter of the vocabulary's tables and of those linear layers whose number is not a
// multiple of `number` + 1. Parts of one module share A. An adapter with an even number has
// factors, as DoRA has.
std::shared_ptr<nn::AdapterWeights> make_adapter(const RandomModel& model, uint64_t number) {
  auto adapter = std::make_shared<nn::AdapterWeights>();
  adapter->number = number;
  std::map<std::string, at::Tensor> downs;
  size_t which = 0;
  for (const adapters::Product& product : models::list_products(model.specification)) {
    const bool is_table = !product.is_of_blocks();
    if (is_table && model.specification.transformer.tied_head)
      continue;  // a tied table cannot be
                 // merged
    const auto& [name, module] = product;
    if (!is_table && which++ % (number + 1) == 0) continue;
    const nn::Parameter& weight = *find_weight_of(model, name);
    const bool out_in = makes_outputs_of_rows(weight);
    const int64_t in = weight.shape[out_in ? 1 : 0], out = weight.shape[out_in ? 0 : 1];
    const at::ScalarType type = weight.tensor.scalar_type();
    const std::string seed = fmt::format("{} {}", number, module);
    if (!downs.contains(module)) downs[module] = random_matrix({kRank, in}, seed, type);
    adapter->products[name] = {.down = downs[module],
                               .up = random_matrix({out, kRank}, seed + name, type),
                               .scale = kScale};
    if (number % 2 == 0 && !is_table) {
      adapter->products[name].factors = random_matrix({out}, seed + name + "factors", type).add_(1);
    }
  }
  return adapter;
}

models::ModelSpecification with_prefix(models::ModelSpecification specification, int64_t tokens) {
  models::set_adapter(
      specification,
      models::ModelAdapter{
          .settings = {},
          .products = {},
          .prefix = adapters::PrefixSettings{.virtual_tokens = tokens, .begins_with_zeros = false},
          .weights = {}});
  return specification;
}

// Makes an adapter with the prefix of a model that has one.
std::shared_ptr<nn::AdapterWeights> prefix_of(const RandomModel& model, uint64_t number) {
  auto adapter = std::make_shared<nn::AdapterWeights>();
  adapter->number = number;
  adapter->num_virtual_tokens = model.build.virtual_tokens();
  for (const nn::ParameterHandle& parameter : model.build.parameters()) {
    const auto of_prefix = adapters::find_prefix_parameter(parameter->name);
    if (!of_prefix) continue;
    const std::string name = parameter->name.substr(0, parameter->name.find(".virtual_"));
    ops::VirtualTokens& tokens = adapter->virtual_tokens[name];
    (of_prefix->of_values ? tokens.values : tokens.keys) =
        parameter->tensor.unflatten(1, {-1, model.specification.facts.head_size}).transpose(0, 1);
  }
  return adapter;
}

// Returns a copy of the model, with the adapter merged into its weights.
std::unique_ptr<RandomModel> merged(const RandomModel& model, const nn::AdapterWeights* adapter,
                                    at::ScalarType type) {
  auto copy = std::make_unique<RandomModel>(model.specification, type);
  if (!adapter) return copy;
  for (const auto& [name, product] : adapter->products) {
    nn::Parameter& weight = *find_weight_of(*copy, name);
    const at::Tensor added = at::mm(product.up, product.down).mul_(kScale);
    const bool out_in = makes_outputs_of_rows(weight);
    weight.tensor.add_(out_in ? added : added.t());
    if (product.factors.defined()) {
      weight.tensor.mul_(out_in ? product.factors.unsqueeze(1) : product.factors);
    }
  }
  return copy;
}

class AdaptersTest : public testing::Test {
 protected:
  AdaptersTest() { at::set_num_threads(1); }
};

// The most likely tokens after a prompt, and their log-probabilities.
struct Continuation {
  Tokens tokens;
  std::vector<double> logprobs;
};

Continuation continue_prompt(const RandomModel& model, const Tokens& prompt, int64_t count) {
  Tokens all = prompt;
  const Tokens tokens = model.greedy(prompt, count);
  all.insert(all.end(), tokens.begin(), tokens.end());
  const auto length = std::ssize(all);
  const at::Tensor logits = logits_of(*model.model, at::tensor(all, at::kLong).view({1, length}),
                                      nn::make_step_context(1, length, at::kCPU));
  const at::Tensor scores = logits.log_softmax(-1)[0];
  std::vector<double> logprobs;
  for (auto i = std::ssize(prompt); i < length; ++i) {
    logprobs.push_back(scores[i - 1][all[i]].item<double>());
  }
  return {tokens, logprobs};
}

TEST_F(AdaptersTest, GiveTheNumbersOfAMergedModelInMixedBatches) {
  const nlohmann::json families = io::read_json(std::filesystem::path(COLOSSAL_TEST_SOURCE_DIR) /
                                                "tests" / "support" / "families.json");
  const at::NoGradGuard no_grad;
  constexpr int64_t kRequests = 12;
  for (const auto& specification :
       {tiny(), family_of("llama", families["llama"]), family_of("phi3", families["phi3"])}) {
    const RandomModel model(specification, at::kDouble);
    const std::vector<std::shared_ptr<nn::AdapterWeights>> adapters{nullptr, make_adapter(model, 1),
                                                                    make_adapter(model, 2)};
    const auto request_of = [&](int64_t i) {
      Request request = greedy(prompt_of(20 + i % 4, i % 2, specification.facts.vocabulary), 8);
      request.adapter = adapters[i * 7 % 3];
      request.logprobs = 0;
      return request;
    };
    std::vector<Continuation> expected;
    std::set<double> first;
    for (int64_t i = 0; i < kRequests; ++i) {
      const Request request = request_of(i);
      expected.push_back(continue_prompt(*merged(model, request.adapter.get(), at::kDouble),
                                         request.prompt, request.max_new_tokens));
      first.insert(expected.back().logprobs.front());
    }
    EXPECT_EQ(first.size(), kRequests);
    for (const int64_t chunk : {512, 7}) {
      for (const int64_t batch : {int64_t{1}, kRequests}) {
        SCOPED_TRACE(fmt::format("chunk {}, batch {}", chunk, batch));
        Answers answers;
        Engine engine(*model.model, specification.facts,
                      {.max_num_seqs = batch, .max_batch_tokens = chunk, .type = at::kDouble});
        for (int64_t i = 0; i < kRequests; ++i) answers.submit(engine, request_of(i));
        engine.drain();
        for (int64_t i = 0; i < kRequests; ++i) {
          EXPECT_EQ(answers[i].numbers(), expected[i].tokens) << i << " " << answers[i].error;
          for (size_t k = 0; k < answers[i].tokens.size(); ++k) {
            EXPECT_NEAR(answers[i].tokens[k].logprob, expected[i].logprobs[k], 1e-9) << i;
          }
        }
      }
    }
  }
}

// Prefixes with sliding windows, learned positions and ALiBi.
TEST_F(AdaptersTest, PrefixesGiveTheNumbersOfAModelThatHasOne) {
  const nlohmann::json families = io::read_json(std::filesystem::path(COLOSSAL_TEST_SOURCE_DIR) /
                                                "tests" / "support" / "families.json");
  const at::NoGradGuard no_grad;
  constexpr int64_t kRequests = 8;
  for (const auto& specification :
       {tiny(), family_of("llama", families["llama"]), family_of("gemma2", families["gemma2"]),
        family_of("bloom", families["bloom"])}) {
    SCOPED_TRACE(specification.transformer.family);
    const RandomModel model(specification, at::kDouble),
        few(with_prefix(specification, 3), at::kDouble),
        many(with_prefix(specification, 9), at::kDouble);
    const std::vector<const RandomModel*> having{&model, &few, &many};
    const std::vector<std::shared_ptr<nn::AdapterWeights>> adapters{nullptr, prefix_of(few, 1),
                                                                    prefix_of(many, 2)};
    const auto request_of = [&](int64_t i) {
      Request request = greedy(prompt_of(5 + i % 4, i % 2, specification.facts.vocabulary), 6);
      request.logprobs = 0;
      return request;
    };
    const auto expect_answers = [&](const Answers& answers,
                                    const std::function<size_t(int64_t)>& which) {
      for (int64_t i = 0; i < std::ssize(answers.all); ++i) {
        const auto [tokens, logprobs] = continue_prompt(*having[which(i)], request_of(i).prompt, 6);
        EXPECT_EQ(answers[i].numbers(), tokens) << i << " " << answers[i].error;
        for (size_t k = 0; k < answers[i].tokens.size(); ++k) {
          EXPECT_NEAR(answers[i].tokens[k].logprob, logprobs[k], 1e-9) << i;
        }
      }
    };
    for (const int64_t chunk : {512, 3}) {
      for (const int64_t batch : {int64_t{1}, kRequests}) {
        SCOPED_TRACE(fmt::format("chunk {}, batch {}", chunk, batch));
        Answers answers;
        Engine engine(*model.model, specification.facts,
                      {.max_num_seqs = batch, .max_batch_tokens = chunk, .type = at::kDouble});
        for (int64_t i = 0; i < kRequests; ++i) {
          Request request = request_of(i);
          request.adapter = adapters[i * 7 % 3];
          answers.submit(engine, request);
        }
        engine.drain();
        expect_answers(answers, [](int64_t i) { return i * 7 % 3; });
      }
      Answers own;
      Engine engine(*few.model, few.specification.facts,
                    {.max_batch_tokens = chunk, .type = at::kDouble});
      for (int64_t i = 0; i < kRequests; ++i) own.submit(engine, request_of(i));
      engine.drain();
      expect_answers(own, [](int64_t) { return 1; });
    }
  }
}

// A prefix takes up positions of the model.
TEST_F(AdaptersTest, APrefixTakesPositions) {
  const RandomModel model(tiny(), at::kDouble), prefixed(with_prefix(tiny(), 100), at::kDouble);
  EXPECT_EQ(prefixed.specification.facts.positions, 28);
  Answers answers;
  Engine engine(*model.model, model.specification.facts, {.type = at::kDouble});
  Request request = greedy(prompt_of(20, 1), 50);
  request.adapter = prefix_of(prefixed, 1);
  answers.submit(engine, request);
  engine.drain();
  EXPECT_EQ(answers[0].tokens.size(), 8);
  EXPECT_EQ(answers[0].reason, FinishReason::length);
  request.prompt = prompt_of(28, 1);
  EXPECT_THROW(engine.submit(request), ConfigError);
  EXPECT_THROW(with_prefix(tiny(), 128), ConfigError);
}

TEST_F(AdaptersTest, AreBatchInvariantInBits) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const RandomModel model(tiny(), type);
    const RandomModel prefixed(with_prefix(tiny(), 6), type);
    const std::vector<std::shared_ptr<nn::AdapterWeights>> adapters{
        nullptr, make_adapter(model, 1), make_adapter(model, 2), prefix_of(prefixed, 3)};
    const auto run = [&](int64_t batch, int64_t chunk) {
      Answers answers;
      Engine engine(*model.model, model.specification.facts,
                    {.max_num_seqs = batch,
                     .max_batch_tokens = chunk,
                     .batch_invariant = true,
                     .type = type});
      for (int64_t i = 0; i < 40; ++i) {
        Request request = greedy(prompt_of(20 + i % 5, i % 4), 10);
        request.logprobs = 1;
        request.adapter = adapters[i % 4];
        answers.submit(engine, request);
      }
      engine.drain();
      std::vector<double> logprobs;
      for (const auto& answer : answers.all) {
        for (const GeneratedToken& token : answer->tokens) logprobs.push_back(token.logprob);
      }
      EXPECT_EQ(logprobs.size(), 400);
      return logprobs;
    };
    const std::vector<double> alone = run(1, 512);
    EXPECT_EQ(run(40, 512), alone);
    EXPECT_EQ(run(40, 9), alone);
    EXPECT_EQ(run(7, 64), alone);
  }
}

// Equal prompts with different adapters share no pages.
TEST_F(AdaptersTest, ShareNoKeysAndValues) {
  const RandomModel model(tiny(), at::kDouble);
  Answers answers;
  Engine engine(*model.model, model.specification.facts, {.max_num_seqs = 1, .type = at::kDouble});
  std::vector<int64_t> cached;
  const auto first = make_adapter(model, 1), second = make_adapter(model, 2);
  for (const auto& adapter : {first, second, first, std::shared_ptr<nn::AdapterWeights>()}) {
    Request request = greedy(prompt_of(50, 1), 1);
    request.adapter = adapter;
    answers.submit(engine, request);
    engine.drain();
    cached.push_back(answers.all.back()->usage.cached_tokens);
  }
  EXPECT_THAT(cached, testing::ElementsAre(0, 0, 48, 0));
}

}  // namespace
}  // namespace colossal::serve
