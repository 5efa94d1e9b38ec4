#include "colossal/plan/operator_work.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "colossal/ops/attention_rule.h"
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

}  // namespace
}  // namespace colossal::test
