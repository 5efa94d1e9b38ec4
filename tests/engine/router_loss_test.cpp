// Losses that balance experts equal their formulas, written as loops over tokens.
#include "colossal/engine/router_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/run_ranks.h"

namespace colossal::test::router_loss {
namespace {

using Over = nn::RouterLosses::Over;

constexpr int64_t kLayers = 2, kSequences = 3, kTokens = 5, kExperts = 4, kChosen = 2;

struct Tokens {
  at::Tensor probabilities;  // [layers, sequences, tokens, experts]
  at::Tensor chosen;         // the same: 1 where an expert is chosen
  at::Tensor log_sums;       // [layers, sequences, tokens]

  Tokens() {
    const at::Tensor logits = at::arange(kLayers * kSequences * kTokens * kExperts, at::kDouble)
                                  .mul(0.7)
                                  .sin()
                                  .mul(3)
                                  .view({kLayers, kSequences, kTokens, kExperts});
    probabilities = at::softmax(logits, -1);
    chosen =
        at::zeros_like(logits).scatter_(-1, std::get<1>(at::topk(probabilities, kChosen, -1)), 1);
    log_sums = at::logsumexp(logits, -1);
  }

  nn::RouterRecords records() const {
    nn::RouterRecords records;
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      nn::RouterRecord& record = records.layers.emplace_back();
      record.probabilities = probabilities[layer].sum(1);
      record.chosen = chosen[layer].sum(1);
      record.squared_log_sums = log_sums[layer].square().sum();
    }
    return records;
  }

  // E * sum over experts of f_i P_i, of these layers and sequences together.
  double balance(Range layers, Range sequences) const {
    double sum = 0;
    for (int64_t expert = 0; expert < kExperts; ++expert) {
      double often = 0, probability = 0, tokens = 0;
      for (int64_t layer = layers.begin; layer < layers.end; ++layer) {
        for (int64_t sequence = sequences.begin; sequence < sequences.end; ++sequence) {
          for (int64_t token = 0; token < kTokens; ++token, ++tokens) {
            often += chosen[layer][sequence][token][expert].item<double>();
            probability += probabilities[layer][sequence][token][expert].item<double>();
          }
        }
      }
      sum += often / tokens * probability / tokens;
    }
    return kExperts * sum;
  }
};

double loss_of(const nn::RouterLosses& losses, const Tokens& tokens, double labels) {
  double found = 0;
  run_ranks(1, [&](comm::World& world) {
    const ParallelContext context(world, Strategy{});
    const nn::StepContext step = nn::make_step_context(kSequences, kTokens, at::kCPU);
    const at::Tensor records = append_router_records({}, tokens.records());
    found = make_router_loss(losses, context)(records, labels, step).item<double>();
  });
  return found;
}

TEST(RouterLoss, EqualsTheFormulas) {
  constexpr double kLabels = 11;
  const Tokens tokens;
  const Range all_layers{0, kLayers}, all_sequences{0, kSequences};
  double by_sequence = 0, by_micro_batch = 0, of_logits = 0;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    by_micro_batch += tokens.balance({layer, layer + 1}, all_sequences) / kChosen;
    for (int64_t sequence = 0; sequence < kSequences; ++sequence) {
      by_sequence +=
          tokens.balance({layer, layer + 1}, {sequence, sequence + 1}) / kChosen / kSequences;
    }
    of_logits += tokens.log_sums[layer].square().mean().item<double>();
  }
  const auto expect = [&](const nn::RouterLosses& losses, double expected) {
    EXPECT_NEAR(loss_of(losses, tokens, kLabels), kLabels * expected, 1e-12 * kLabels * expected);
  };
  expect({.balance = 0.3, .over = Over::sequence}, 0.3 * by_sequence);
  expect({.balance = 0.3, .over = Over::micro_batch}, 0.3 * by_micro_batch);
  expect({.balance = 0.3, .over = Over::layers}, 0.3 * tokens.balance(all_layers, all_sequences));
  expect({.z = 0.2}, 0.2 * of_logits);
  expect({.balance = 0.3, .over = Over::sequence, .z = 0.2}, 0.3 * by_sequence + 0.2 * of_logits);
}

}  // namespace
}  // namespace colossal::test::router_loss
