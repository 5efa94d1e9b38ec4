// Adapters chosen by request, over several ranks: same tokens and log-probabilities as on one rank.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "colossal/base/error.h"
#include "colossal/comm/law.h"
#include "colossal/serve/engine.h"
#include "colossal/serve/forward_pass.h"
#include "colossal/serve/inference_model.h"
#include "tests/serve/random_weights.h"
#include "tests/serve/sharded_models.h"
#include "tests/support/run_ranks.h"
#include "tests/support/temporary_directory.h"

namespace colossal::serve {
namespace {

using test::for_model;
using test::tensor_strategy;

struct Chosen {
  std::vector<int32_t> tokens;
  std::vector<double> logprobs;
  std::string error;
};

class ShardedAdapters : public testing::Test {
 protected:
  ShardedAdapters() : specification_(test::grouped_llama(false)) {
    at::set_num_threads(1);  // more threads only slow down such small tensors
    test::write_random_weights(specification_, folder_.path());
    write_adapter("plain", {"q_proj", "k_proj", "v_proj", "o_proj", "down_proj"}, false);
    write_adapter("magnitudes", {"q_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}, true);
    write_prefix();
  }

  void write_prefix() {
    const models::ModelFacts& facts = specification_.facts;
    const int64_t features = facts.kv_heads * facts.head_size, tokens = 5;
    const std::string tensor = "prompt_embeddings";
    const std::map<std::string, std::vector<int64_t>> shapes{
        {tensor, {tokens, facts.layers * 2 * features}}};
    const at::Tensor values = at::empty({c10::multiply_integers(shapes.at(tensor))}, at::kFloat);
    ops::fill_normal(values, 0, ops::parameter_stream(9, tensor), 0, 1);
    const std::filesystem::path folder = folder_.path() / "prefix";
    std::filesystem::create_directory(folder);
    test::write_tensors({{tensor, values}}, shapes, folder / "adapter_model.safetensors");
    const nlohmann::json config{
        {"peft_type", "PREFIX_TUNING"}, {"num_virtual_tokens", tokens},
        {"num_layers", facts.layers},   {"num_attention_heads", facts.kv_heads},
        {"token_dim", features},        {"task_type", "CAUSAL_LM"}};
    std::ofstream(folder / "adapter_config.json") << config.dump();
  }

  using Sizes = std::map<std::string, std::pair<int64_t, int64_t>>;  // (inputs, outputs)

  // Writes an adapter of all layers as PEFT saves it. Without magnitudes, also adapts the tables of
  // the vocabulary.
  void write_adapter(const std::string& name, const std::vector<std::string>& targets,
                     bool magnitudes) {
    const models::ModelFacts& facts = specification_.facts;
    const int64_t inner = 96, queries = facts.heads * facts.head_size;
    const int64_t keys = facts.kv_heads * facts.head_size;
    const Sizes sizes{{"self_attn.q_proj", {facts.hidden, queries}},
                      {"self_attn.k_proj", {facts.hidden, keys}},
                      {"self_attn.v_proj", {facts.hidden, keys}},
                      {"self_attn.o_proj", {queries, facts.hidden}},
                      {"mlp.gate_proj", {facts.hidden, inner}},
                      {"mlp.up_proj", {facts.hidden, inner}},
                      {"mlp.down_proj", {inner, facts.hidden}}};
    write_adapter(name, targets, sizes, magnitudes, /*tables=*/!magnitudes);
  }

  void write_adapter(const std::string& name, const std::vector<std::string>& targets,
                     const Sizes& sizes, bool magnitudes, bool tables) {
    constexpr int64_t kRank = 3;
    const models::ModelFacts& facts = specification_.facts;
    std::map<std::string, at::Tensor> values;
    std::map<std::string, std::vector<int64_t>> shapes;
    const auto add = [&](const std::string& tensor, std::vector<int64_t> shape, double mean) {
      shapes[tensor] = shape;
      values[tensor] = at::empty({c10::multiply_integers(shape)}, at::kFloat);
      ops::fill_normal(values[tensor], mean, ops::parameter_stream(9, name + tensor), 0, 0.3);
    };
    for (int64_t layer = 0; layer < facts.layers; ++layer) {
      for (const auto& [product, size] : sizes) {
        if (std::ranges::find(targets, product.substr(product.find('.') + 1)) == targets.end()) {
          continue;
        }
        const std::string module =
            fmt::format("base_model.model.model.layers.{}.{}.", layer, product);
        add(module + "lora_A.weight", {kRank, size.first}, 0);
        add(module + "lora_B.weight", {size.second, kRank}, 0);
        if (magnitudes) add(module + "lora_magnitude_vector", {size.second}, 3);
      }
    }
    if (tables) {
      const std::string model = "base_model.model.";
      add(model + "lm_head.lora_A.weight", {kRank, facts.hidden}, 0);
      add(model + "lm_head.lora_B.weight", {facts.vocabulary, kRank}, 0);
      add(model + "model.embed_tokens.lora_embedding_A", {kRank, facts.vocabulary}, 0);
      add(model + "model.embed_tokens.lora_embedding_B", {facts.hidden, kRank}, 0);
    }
    const std::filesystem::path folder = folder_.path() / name;
    std::filesystem::create_directories(folder);
    test::write_tensors(values, shapes, folder / "adapter_model.safetensors");
    const nlohmann::json config{{"peft_type", "LORA"},    {"r", kRank},
                                {"lora_alpha", 4},        {"target_modules", targets},
                                {"use_dora", magnitudes}, {"task_type", "CAUSAL_LM"}};
    std::ofstream(folder / "adapter_config.json") << config.dump();
  }

  // Submits requests with both adapters and without one, many at once. Then submits one more, whose
  // adapter is loaded while the engine runs and after the first adapter was dropped.
  std::vector<Chosen> ask(Engine& engine, const LoadAdapter& load) const {
    std::vector<Chosen> all(8);
    const auto submit = [&](size_t which, std::shared_ptr<const nn::AdapterWeights> adapter) {
      Request request{.sampling = {.temperature = 0}, .max_new_tokens = 7, .logprobs = 0};
      for (size_t i = 0; i < 5 + which; ++i) {
        request.prompt.push_back(static_cast<int32_t>((i * i * 3 + i) % 50));
      }
      request.adapter = std::move(adapter);
      request.on_token = [&chosen = all[which]](const GeneratedToken& token) {
        chosen.tokens.push_back(token.token);
        chosen.logprobs.push_back(token.logprob);
        return true;
      };
      request.on_finish = [&chosen = all[which]](FinishReason, const Usage&,
                                                 const std::string& error) {
        chosen.error = error;
      };
      engine.submit(std::move(request));
    };
    {
      const auto plain = load(folder_.path() / "plain");
      const auto magnitudes = load(folder_.path() / "magnitudes");
      const auto prefix = has_prefix_ ? load(folder_.path() / "prefix") : plain;
      for (size_t i = 0; i < 7; ++i) {
        submit(i, i == 5 ? prefix : i % 3 == 0 ? nullptr : i % 3 == 1 ? plain : magnitudes);
      }
      engine.drain();
    }
    submit(7, load(folder_.path() / "plain"));
    engine.drain();
    return all;
  }

  std::vector<Chosen> over_ranks(const Strategy& strategy) const {
    const InferenceOptions options{.type = at::kDouble,
                                   .strategy = for_model(strategy, specification_.facts)};
    std::vector<Chosen> chosen;
    test::run_ranks(strategy.world_size(), [&](comm::World& world) {
      at::set_num_threads(1);
      InferenceModel model(specification_, options, world);
      const LoadAdapter load = [&](const auto& folder) { return model.load_adapter(folder); };
      if (world.rank() != 0) {
        return follow(*model, specification_.facts, *model.ranks(), {}, load);
      }
      Engine engine(*model, specification_.facts, {.max_batch_tokens = 16, .type = at::kDouble},
                    model.ranks());
      chosen = ask(engine, load);
    });
    return chosen;
  }

  void expect_those_of_one_rank(const std::vector<Strategy>& strategies) const {
    const std::vector<Chosen> expected = over_ranks({});
    for (const Chosen& chosen : expected) EXPECT_EQ(chosen.error, "");
    EXPECT_NE(expected[0].logprobs[0], expected[1].logprobs[0]);
    for (const Strategy& strategy : strategies) {
      TRACED_CASE(testing::Message() << strategy.tp << ' ' << tensor_mode_name(strategy.tensor_mode)
                                     << ' ' << strategy.pp);
      const std::vector<Chosen> found = over_ranks(strategy);
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].tokens, expected[i].tokens) << i << found[i].error;
        ASSERT_EQ(found[i].logprobs.size(), 7);
        for (size_t token = 0; token < 7; ++token) {
          EXPECT_NEAR(found[i].logprobs[token], expected[i].logprobs[token], 1e-11);
        }
      }
    }
  }

  const test::TemporaryDirectory folder_;
  models::ModelSpecification specification_;
  bool has_prefix_ = true;
};

// Returns what rank 0 of two sends for two requests, of which the first has the adapter, if any.
std::map<comm::Ledger::Key, comm::Traffic> traffic_of(
    const models::ModelSpecification& specification, const std::filesystem::path& adapter) {
  const InferenceOptions options{
      .type = at::kDouble,
      .strategy = for_model(tensor_strategy(TensorMode::one_d, 2), specification.facts)};
  std::map<comm::Ledger::Key, comm::Traffic> sent;
  test::run_ranks(2, [&](comm::World& world) {
    at::set_num_threads(1);
    InferenceModel model(specification, options, world);
    const LoadAdapter load = [&](const auto& folder) { return model.load_adapter(folder); };
    if (world.rank() != 0) return follow(*model, specification.facts, *model.ranks(), {}, load);
    {
      Engine engine(*model, specification.facts,
                    {.heartbeat = {.timeout = {}}, .type = at::kDouble}, model.ranks());
      world.ledger().reset();
      Request request{
          .prompt = {1, 2, 3, 4, 5}, .sampling = {.temperature = 0}, .max_new_tokens = 7};
      if (!adapter.empty()) request.adapter = load(adapter);
      engine.submit(std::exchange(request, {.prompt = {6}, .max_new_tokens = 1}));
      engine.drain();
      engine.submit(std::move(request));
      engine.drain();
    }
    sent = world.ledger().entries();
  });
  return sent;
}

// In linear layers that sum over ranks, the values between A and B are sent in addition.
TEST_F(ShardedAdapters, SendWhatTheLawsSay) {
  constexpr int64_t kColumns = 3, kLayers = 4, kPasses = 7;  // the prompt's, and 6 of a token
  write_adapter("adding", {"o_proj", "down_proj"},
                {{"self_attn.o_proj", {6 * 8, 36}}, {"mlp.down_proj", {96, 36}}},
                /*magnitudes=*/false, /*tables=*/false);
  const std::filesystem::path folder = folder_.path() / "adding";
  auto with = traffic_of(specification_, folder), without = traffic_of(specification_, "");
  const auto more = [&](comm::Reason reason) {
    return with[{"tp", reason}].law_bytes - without[{"tp", reason}].law_bytes;
  };
  const auto all_reduce = [](int64_t numbers) {
    return comm::law::all_reduce(numbers, 2, 0, static_cast<int64_t>(sizeof(double)));
  };
  EXPECT_EQ(more(comm::Reason::tensor),
            2 * kLayers * (all_reduce(5 * kColumns) + (kPasses - 1) * all_reduce(kColumns)));
  // The adapter's load message and its all-reduce; in each pass, one run of adapted rows; then the
  // drop message.
  const auto path = static_cast<int64_t>(folder.string().size());
  EXPECT_EQ(more(comm::Reason::control),
            16 + 8 * (1 + path) + all_reduce(1) + 8 * 3 * kPasses + 16 + 8);
}

std::vector<Strategy> layouts_of_adapters() {
  std::vector<Strategy> all = test::tensor_and_pipeline_strategies();
  all.push_back(tensor_strategy(TensorMode::one_d, 3));
  return all;
}

TEST_F(ShardedAdapters, GiveTheNumbersOfOneRank) {
  expect_those_of_one_rank(layouts_of_adapters());
}

// Adapters of latent attention: linear layers before and after the latents.
TEST_F(ShardedAdapters, OfLatentsGiveThemToo) {
  specification_ = test::latent_deepseek();
  test::write_random_weights(specification_, folder_.path());
  const Sizes sizes{{"self_attn.q_a_proj", {36, 10}},
                    {"self_attn.kv_a_proj_with_mqa", {36, 9 + 4}},
                    {"self_attn.q_b_proj", {10, 6 * (6 + 4)}},
                    {"self_attn.o_proj", {6 * 7, 36}},
                    {"mlp.down_proj", {40, 36}}};
  write_adapter("plain", {"q_a_proj", "kv_a_proj_with_mqa", "q_b_proj", "o_proj"}, sizes,
                /*magnitudes=*/false, /*tables=*/true);
  write_adapter("magnitudes", {"kv_a_proj_with_mqa", "q_b_proj", "down_proj"}, sizes,
                /*magnitudes=*/true, /*tables=*/false);
  has_prefix_ = false;
  expect_those_of_one_rank(layouts_of_adapters());
}

// If a rank cannot load an adapter, requests with this adapter fail, and the others continue.
TEST_F(ShardedAdapters, OneThatARankCannotLoadEndsItsRequests) {
  const InferenceOptions options{
      .type = at::kDouble,
      .strategy = for_model(tensor_strategy(TensorMode::one_d, 2), specification_.facts)};
  std::vector<Chosen> chosen;
  test::run_ranks(2, [&](comm::World& world) {
    at::set_num_threads(1);
    InferenceModel model(specification_, options, world);
    const LoadAdapter load = [&](const auto& folder) { return model.load_adapter(folder); };
    if (world.rank() != 0) {
      return follow(*model, specification_.facts, *model.ranks(), {},
                    [](const auto&) -> std::shared_ptr<const nn::AdapterWeights> {
                      throw IoError("the folder is on another host");
                    });
    }
    Engine engine(*model, specification_.facts, {.type = at::kDouble}, model.ranks());
    chosen = ask(engine, load);
  });
  for (size_t i = 0; i < chosen.size(); ++i) {
    const bool has_adapter = i == 7 || i % 3 != 0;
    EXPECT_EQ(chosen[i].tokens.size(), has_adapter ? 0 : 7);
    const bool is_told = chosen[i].error.find("cannot load the adapter") != std::string::npos;
    EXPECT_EQ(is_told, has_adapter) << chosen[i].error;
  }
}

// A rank is lost while one request runs, others wait, some with adapters that the ranks have not
// loaded, and more are submitted. Each request ends once, and soon.
TEST_F(ShardedAdapters, ALostRankEndsWhatWaits) {
  for (const Strategy& strategy :
       {tensor_strategy(TensorMode::one_d, 2), tensor_strategy(TensorMode::one_d, 1, 1, 2)}) {
    const InferenceOptions options{.type = at::kDouble,
                                   .strategy = for_model(strategy, specification_.facts)};
    std::atomic<int> submitted = 0, failed = 0, other = 0;
    std::chrono::duration<double> taken{};
    const auto of_first = [&](InferenceModel& model) {
      Engine engine(*model, specification_.facts,
                    {.max_num_seqs = 1, .max_queue = 100000, .type = at::kDouble}, model.ranks());
      const std::vector<std::shared_ptr<const nn::AdapterWeights>> adapters{
          nullptr, model.load_adapter(folder_.path() / "plain"),
          model.load_adapter(folder_.path() / "magnitudes")};
      std::chrono::steady_clock::time_point lost_at;
      try {
        for (;; ++submitted) {
          Request request{.prompt = {1, 2, 3}, .max_new_tokens = 40};
          request.adapter = adapters[submitted % 3];
          request.on_finish = [&](FinishReason reason, const Usage&, const std::string&) {
            ++(reason == FinishReason::failed ? failed : other);
          };
          engine.submit(std::move(request));
          if (submitted > 30) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          lost_at = std::chrono::steady_clock::now();
        }
      } catch (const EngineLost&) {
        engine.drain();
        taken = std::chrono::steady_clock::now() - lost_at;
      }
      throw CommError("as the engine's rank ends then");
    };
    EXPECT_THROW(
        test::run_ranks(2,
                        [&](comm::World& world) {
                          at::set_num_threads(1);
                          InferenceModel model(specification_, options, world);
                          if (world.rank() == 0) return of_first(model);
                          int passes = 0;
                          follow(
                              *model, specification_.facts, *model.ranks(),
                              [&](int, const auto& run) {
                                if (++passes == 12) throw Error("killed");
                                run();
                              },
                              [&](const auto& folder) { return model.load_adapter(folder); });
                        }),
        std::runtime_error);
    EXPECT_GT(submitted, 3);
    EXPECT_EQ(failed, submitted);
    EXPECT_EQ(other, 0);
    EXPECT_LT(taken.count(), 5);
  }
}

}  // namespace
}  // namespace colossal::serve
