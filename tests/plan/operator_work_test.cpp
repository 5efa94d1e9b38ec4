#include "colossal/plan/operator_work.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <functional>

#include "colossal/ops/attention/attention_rule.h"
#include "colossal/plan/plan.h"
#include "tests/plan/layouts.h"

namespace colossal::test {
namespace {

at::Tensor meta(std::vector<int64_t> sizes) {
  return at::empty(sizes, at::TensorOptions(at::kFloat).device(at::kMeta));
}

double flops_of(const std::string& name, const std::vector<c10::IValue>& arguments) {
  return plan::work_of(name, arguments).flops;
}

double part_flops(const std::vector<int64_t>& queries, const std::vector<int64_t>& keys,
                  const ops::AttentionRule& rule) {
  const auto size = [](const std::vector<int64_t>& runs) {
    int64_t sum = 0;
    for (size_t i = 0; i < runs.size(); i += 2) sum += runs[i + 1] - runs[i];
    return sum;
  };
  const at::Tensor query = meta({1, 1, size(queries), 1}), key = meta({1, 1, size(keys), 1});
  const auto [integers, numbers] = rule.packed();
  const std::vector<c10::IValue> arguments{query,         key,           key,     c10::IValue(),
                                           c10::IValue(), c10::IValue(), queries, keys,
                                           integers,      numbers};
  return flops_of("colossal::attention_part", arguments);
}

TEST(Flops, OfProducts) {
  const at::Tensor a = meta({3, 5}), b = meta({5, 7});
  EXPECT_EQ(flops_of("aten::mm", std::vector<c10::IValue>{a, b}), 2 * 3 * 5 * 7);
  EXPECT_EQ(flops_of("aten::addmm", std::vector<c10::IValue>{b, a, b}), 2 * 3 * 5 * 7);
  for (const char* name : {"colossal::summed_product", "colossal::rounded_product"}) {
    EXPECT_EQ(flops_of(name, std::vector<c10::IValue>{a, b, meta({3, 7})}), 2 * 3 * 5 * 7);
  }
  EXPECT_EQ(flops_of("aten::bmm", std::vector<c10::IValue>{meta({2, 3, 5}), meta({2, 5, 7})}),
            2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(flops_of("aten::linear", std::vector<c10::IValue>{meta({2, 3, 5}), meta({7, 5})}),
            2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(flops_of("aten::add", std::vector<c10::IValue>{a, a}), 0);
}

// Four FLOPs a pair: a product for the score and one for the sum, of size 1.
TEST(Flops, CountThePairsThatAreSeen) {
  for (const auto& [queries, keys] :
       std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>{
           {{0, 7}, {0, 7}},
           {{3, 9}, {0, 4}},
           {{0, 4}, {4, 9}},
           {{2, 5}, {1, 9}},
           {{0, 2, 10, 12}, {3, 5, 8, 11}},
           {{4, 9}, {4, 6}}}) {
    const auto visit = [](const std::vector<int64_t>& runs, const auto& body) {
      for (size_t i = 0; i < runs.size(); i += 2) {
        for (int64_t position = runs[i]; position < runs[i + 1]; ++position) body(position);
      }
    };
    for (const bool causal : {true, false}) {
      for (const int64_t window : {0, 1, 3, 20}) {
        for (const int64_t prefix : {0, 5}) {
          ops::AttentionRule rule;
          rule.causal = causal;
          rule.window = window;
          rule.prefix_lengths = {prefix, prefix};
          int pairs = 0;
          visit(queries, [&](int64_t query) {
            visit(keys, [&](int64_t key) {
              const bool near = window == 0 || std::abs(key - query) < window;
              pairs += key < prefix || ((!causal || key <= query) && near) ? 1 : 0;
            });
          });
          EXPECT_EQ(part_flops(queries, keys, rule), 4 * pairs);
        }
      }
    }
  }
}

// A step: six FLOPs for each weight of a product and each token, and attention's pairs, seven
// products of head size each (two forward, five backward).
TEST(Flops, OfAStep) {
  for (const char* family : {"gpt2", "llama"}) {
    const Job job = job_of({.family = family, .compute = "fp32"});
    const models::ModelFacts& facts = job.model.facts;
    const auto sequences = static_cast<double>(job.config.train.global_batch);
    const auto length = static_cast<double>(job.sequence_length);
    const double pairs = sequences * length * (length + 1) / 2;
    const double expected =
        6 * static_cast<double>(facts.product_weights) * sequences * length +
        2 * 7 * static_cast<double>(facts.layers * facts.heads * facts.head_size) * pairs;
    EXPECT_DOUBLE_EQ(plan_of(plan::record_step(job, 0), 0).flops, expected) << family;
  }
}

// The work is shared: nothing of it is done twice over dp, sp and tp.
TEST(Flops, AddUpOverRanks) {
  for (const char* mode : {"ring", "ulysses"}) {
    const Job alone = job_of({.num_micro_batches = 1});
    const double whole = plan_of(plan::record_step(alone, 0), 0).flops;
    const Job shared = job_of({.dp = 2, .sp = 2, .tp = 3, .sp_mode = mode});
    double sum = 0;
    for (int rank = 0; rank < 12; ++rank)
      sum += plan_of(plan::record_step(shared, rank), rank).flops;
    EXPECT_NEAR(sum, 2 * whole, 1e-12 * sum) << mode;  // a replica each
  }
}

// Without a rule, products of an operator would take no time.
TEST(OperatorWork, EveryOperatorOfOursHasARule) {
  int operators = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with("colossal::")) continue;
    ++operators;
    EXPECT_TRUE(plan::has_rule(name.name))
        << name.name << ": add a rule to plan/operator_work.cpp, `other` if it has no products";
  }
  EXPECT_GT(operators, 30);
}

struct Work {
  double flops = 0, logits = 0;
};

// The work of a step, of all ranks.
Work work_of_all(const Job& job) {
  Work work;
  for (int rank = 0; rank < job.strategy.world_size(); ++rank) {
    for (const plan::Operator& made : plan::record_step(job, rank).recording.operators) {
      work.flops += static_cast<double>(made.times) * made.work.flops;
      work.logits += static_cast<double>(made.times) * made.work.logits;
      if (plan::has_rule(made.name)) continue;
      for (const char* const word :
           {"mm", "matmul", "product", "linear", "conv", "einsum", "dot"}) {
        EXPECT_EQ(made.name.find(word), std::string::npos)
            << made.name << " may multiply, and has no rule";
      }
    }
  }
  return work;
}

struct Divided {
  const char* name;
  std::function<void(RunConfig&)> apply;
  int ranks = 1;
  const char* only = "";  // the only preset that can be divided like this
};

// Ranks share the products of a step, and its cross-entropy: together they do what one rank does.
TEST(OperatorWork, OfAllRanksIsThatOfOne) {
  const auto tensor_mode = [](int64_t tp, const char* mode, int64_t rows) {
    return [=](RunConfig& config) {
      config.parallel.tp = tp;
      config.parallel.tp_mode = mode;
      config.memory.table_rows = rows;
    };
  };
  const std::vector<Divided> ways{
      {"table in blocks", [](RunConfig& config) { config.memory.table_rows = 64; }},
      {"dp 2", [](RunConfig& config) { config.parallel.dp = 2; }, 2},
      {"sp 2", [](RunConfig& config) { config.parallel.sp = 2; }, 2},
      {"ulysses 2",
       [](RunConfig& config) {
         config.parallel.sp = 2;
         config.parallel.sp_mode = "ulysses";
       },
       2},
      {"pp 2, zb-h1",
       [](RunConfig& config) {
         config.parallel.pp = 2;
         config.parallel.pp_schedule = "zb-h1";
       },
       2},
      {"tp 2", tensor_mode(2, "1d", 0), 2},
      {"tp 2, table in blocks", tensor_mode(2, "1d", 64), 2},
      {"tp 4, 2d", tensor_mode(4, "2d", 0), 4},
      {"tp 4, 2d, table in blocks", tensor_mode(4, "2d", 64), 4},
      {"tp 8, 2.5d", tensor_mode(8, "2.5d", 0), 8},
      {"tp 8, 3d", tensor_mode(8, "3d", 0), 8},
      {"ep 2", [](RunConfig& config) { config.parallel.ep = 2; }, 2, "mixtral-8x7b"}};
  const nlohmann::json llama{{"vocab_size", 512},        {"hidden_size", 64},
                             {"intermediate_size", 128}, {"num_hidden_layers", 2},
                             {"num_attention_heads", 8}, {"num_key_value_heads", 8}};
  nlohmann::json mixtral = llama;
  mixtral["num_local_experts"] = 4;
  const std::vector<std::pair<const char*, nlohmann::json>> models{
      {"gpt2-tiny", {{"vocab_size", 512}, {"n_embd", 64}, {"n_layer", 2}, {"n_head", 8}}},
      {"llama-tiny", llama},
      {"mixtral-8x7b", mixtral},
      {"t5-tiny", {{"vocab_size", 512}}},
      {"bart-tiny", {{"vocab_size", 512}}},
      {"bert-tiny", {{"vocab_size", 512}}}};
  for (const auto& [preset, overrides] : models) {
    const auto job_with = [&](const std::function<void(RunConfig&)>& change, int ranks) {
      RunConfig config;
      config.model.preset = preset;
      config.model.overrides = overrides;
      config.data.sequence_length = 32;
      config.train.global_batch = 8;
      config.train.micro_batch = 4;  // so few micro-batches that all are recorded
      config.precision.compute = "bf16";
      change(config);
      return resolve_job(config, {.ranks = ranks, .local_ranks = ranks});
    };
    const Work alone = work_of_all(job_with([](RunConfig&) {}, 1));
    EXPECT_EQ(alone.logits, 8 * 32 * 512) << preset;
    for (const Divided& way : ways) {
      const std::string only = way.only;
      if (!only.empty() && only != preset) continue;
      const Work divided = work_of_all(job_with(way.apply, way.ranks));
      EXPECT_EQ(divided.logits, alone.logits) << preset << ", " << way.name;
      // Routers, and keys that several ranks hold, are computed by each.
      EXPECT_GE(divided.flops, 0.999 * alone.flops) << preset << ", " << way.name;
      EXPECT_LE(divided.flops, 1.4 * alone.flops) << preset << ", " << way.name;
    }
  }
}

}  // namespace
}  // namespace colossal::test
