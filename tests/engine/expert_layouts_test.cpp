// Models with experts at layouts of every kind: they train there as they do on one rank, whoever
// has tokens, and send what the laws say.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include "colossal/engine/state_shapes.h"
#include "colossal/layout/partition.h"
#include "colossal/models/transformer.h"
#include "colossal/models/transformer_sharding.h"
#include "colossal/parallel/builder.h"
#include "tests/support/covering.h"
#include "tests/support/pairwise.h"
#include "tests/support/run_ranks.h"
#include "tests/support/tiny_training.h"

namespace colossal::test::expert_layouts {
namespace {

constexpr int64_t kExperts = 6, kChosen = 2;

// Attention and experts of sizes that divide by nothing convenient; a first layer without experts.
models::TransformerConfig model_of_experts() {
  models::TransformerConfig model = decoder("qwen3-30b-a3b", {{"vocab_size", 61},
                                                              {"hidden_size", 28},
                                                              {"intermediate_size", 22},
                                                              {"moe_intermediate_size", 10},
                                                              {"num_hidden_layers", 3},
                                                              {"mlp_only_layers", {0}},
                                                              {"num_attention_heads", 6},
                                                              {"num_key_value_heads", 2},
                                                              {"head_dim", 4},
                                                              {"max_position_embeddings", 16},
                                                              {"num_experts", kExperts},
                                                              {"num_experts_per_tok", kChosen},
                                                              {"initializer_range", 0.3}});
  return model;
}

// Of an earlier run: experts 1 and 3 were hot. The first block has no experts.
const std::vector<std::vector<int64_t>> kObservedRows{
    {}, {5, 90, 3, 80, 10, 20}, {7, 60, 8, 50, 40, 9}};

struct Layout {
  int ranks = 1;
  Strategy strategy{};
  int64_t micro_batch = 0;
  memory::Recompute recompute{};
  bool on_host = false;
};

std::string describe(const Layout& layout) {
  const Strategy& s = layout.strategy;
  return fmt::format(
      "{} ranks, ep {} expert_tp {} copies {} {}, tp {} ({}, depth {}, tokens {}), sp {} ({}), pp "
      "{} "
      "({}), ZeRO "
      "{} in groups of {}, micro-batch {}, recompute {}{}, on host {}",
      layout.ranks, s.ep, s.expert_tp, s.expert_copies,
      s.expert_rows.empty() ? "as numbered" : "placed by load", s.tp,
      tensor_mode_name(s.tensor_mode), s.tp_depth, s.tp_sequence ? "shared" : "copied", s.sp,
      s.sequence_mode == SequenceMode::ring ? "ring" : "ulysses", s.pp, s.pp_schedule, s.zero,
      s.zero_group, layout.micro_batch, layout.recompute.selective ? "selective " : "",
      layout.recompute.full_blocks, layout.on_host);
}

TinyTraining training_of(const Layout& layout) {
  TinyTraining training;
  training.model = model_of_experts();
  training.layout = layout.strategy;
  if (layout.strategy.pp > 1) {
    training.layout.stage_ranks = {0, 1};
    training.layout.stage_blocks = {1, 2};
  }
  training.micro_batch = layout.micro_batch;
  training.recompute = layout.recompute;
  if (layout.on_host) {
    const memory::TierShares host{.host = 1};
    training.tiers = {
        .parameters = host, .gradients = host, .optimizer = host, .activations = host};
  }
  training.global_batch = 8;
  training.sequence = 7;
  return training;
}

// Each way to cut tensors.
std::vector<Strategy> tensor_modes() {
  return {{},
          {.tp = 2},
          {.tp = 3},
          {.tp = 2, .tp_sequence = false},
          {.tp = 4, .tensor_mode = TensorMode::two_d},
          {.tp = 4, .tensor_mode = TensorMode::two_and_half_d, .tp_depth = 4},
          {.tp = 8, .tensor_mode = TensorMode::two_and_half_d, .tp_depth = 2},
          {.tp = 8, .tensor_mode = TensorMode::three_d}};
}

bool is_possible(const Layout& layout) {
  const Strategy& s = layout.strategy;
  const int of_replica = s.pp * s.sp * s.tp, of_stage = layout.ranks / s.pp;
  if (layout.ranks > 8 || layout.ranks % of_replica != 0 || of_stage % s.expert_ranks() != 0) {
    return false;
  }
  const int dp = layout.ranks / of_replica, data = dp * s.sp;
  if (8 % dp != 0 || (layout.micro_batch == 0 && s.pp > 1)) return false;
  if (s.zero_group == 0) return true;
  const int shard_ranks = s.zero_group * s.tp;
  const bool fits = shard_ranks % s.expert_ranks() == 0 || s.expert_ranks() % shard_ranks == 0;
  const bool divides = s.zero_group < s.sp ? s.sp % s.zero_group == 0
                                           : s.zero_group % s.sp == 0 && data % s.zero_group == 0;
  return s.zero > 0 && data > s.zero_group && fits && divides;
}

// How many options each setting has, in the order of layout_of().
const std::vector<int> kOptions{8, 7, 3, 3, 4, 2, 2, 3, 2, 4, 5};

Layout layout_of(const Choice& choice) {
  static const std::vector<Strategy> modes = tensor_modes();
  static constexpr std::pair<int, int> kExpertRanks[] = {{1, 1}, {2, 1}, {3, 1}, {4, 1},
                                                         {6, 1}, {2, 2}, {1, 2}};
  static constexpr std::pair<int, SequenceMode> kSequences[] = {
      {1, SequenceMode::ring}, {2, SequenceMode::ring}, {2, SequenceMode::ulysses}};
  static constexpr std::pair<int, const char*> kPipelines[] = {
      {1, "1f1b"}, {2, "1f1b"}, {2, "zb-h1"}};
  static constexpr std::pair<int, bool> kBusyExperts[] = {
      {0, false}, {2, false}, {2, true}, {0, true}};
  static constexpr int kRanks[] = {2, 3, 4, 6, 8};
  Layout layout{.strategy = modes[choice[0]]};
  Strategy& s = layout.strategy;
  std::tie(s.ep, s.expert_tp) = kExpertRanks[choice[1]];
  std::tie(s.sp, s.sequence_mode) = kSequences[choice[2]];
  std::tie(s.pp, s.pp_schedule) = kPipelines[choice[3]];
  s.zero = choice[4];
  s.zero_group = 2 * choice[5];
  layout.micro_batch = choice[6];
  layout.recompute = {.selective = choice[7] == 1, .full_blocks = choice[7] == 2 ? 9 : 0};
  layout.on_host = choice[8] == 1;
  const auto [copies, placed] = kBusyExperts[choice[9]];
  s.expert_copies = copies;
  if (placed) s.expert_rows = kObservedRows;
  layout.ranks = kRanks[choice[10]];
  return layout;
}

bool is_possible_choice(const Choice& choice) {
  const Layout layout = layout_of(choice);
  const Strategy& s = layout.strategy;
  return is_possible(layout) && (s.ep > 1 || (s.expert_copies == 0 && s.expert_rows.empty()));
}

std::vector<Layout> all_layouts() {
  std::vector<Layout> all;
  Choice choice(kOptions.size(), 0);
  while (true) {
    if (is_possible_choice(choice)) all.push_back(layout_of(choice));
    size_t setting = 0;
    while (setting < choice.size() && ++choice[setting] == kOptions[setting]) choice[setting++] = 0;
    if (setting == choice.size()) return all;
  }
}

std::vector<double> settings_of(const Layout& layout) {
  const Strategy& s = layout.strategy;
  const double mode = 100 * s.tp + 10 * static_cast<int>(s.tensor_mode) + (s.tp_sequence ? 1 : 0);
  const int of_replica = s.pp * s.sp * s.tp;
  return {mode,
          static_cast<double>(layout.ranks / of_replica),
          10.0 * s.ep + s.expert_tp,
          10.0 * s.sp + static_cast<int>(s.sequence_mode),
          10.0 * s.pp + (s.pp_schedule == "1f1b" ? 0 : 1),
          static_cast<double>(s.zero),
          static_cast<double>(s.zero_group),
          static_cast<double>(s.expert_copies),
          s.expert_rows.empty() ? 0.0 : 1.0,
          static_cast<double>(layout.micro_batch),
          layout.recompute.selective ? 1.0 : static_cast<double>(layout.recompute.full_blocks),
          layout.on_host ? 1.0 : 0.0};
}

void expect_serial(const Layout& layout, const TinyResult& serial) {
  TRACED_CASE(describe(layout));
  const TinyTraining training = training_of(layout);
  expect_same(train_tiny(training, layout.ranks), serial, 1e-9, training);
}

TEST(ExpertLayouts, MostPairsOfSettingsTrainAsOneRankDoes) {
  const TinyResult serial = train_tiny(training_of({}), 1);
  for (const Layout& layout : most_pairs(all_layouts(), settings_of)) {
    expect_serial(layout, serial);
  }
}

TEST(SlowExpertLayouts, EveryThreeSettingsTrainAsOneRankDoes) {
  const TinyResult serial = train_tiny(training_of({}), 1);
  for (const Choice& choice : ThreeWiseCovering(kOptions, is_possible_choice).make()) {
    expect_serial(layout_of(choice), serial);
    if (testing::Test::HasFailure()) return;
  }
}

// Biases of the routers' logits, which no family of these has: they decide whatever a token is.
TinyTraining with_biases(TinyTraining training, const std::vector<double>& biases) {
  training.model.router.bias = true;
  for (const char* layer : {"blocks.1", "blocks.2"}) {
    training.initial[std::string(layer) + ".router.bias"] = at::tensor(biases, at::kDouble);
  }
  return training;
}

std::vector<Layout> layouts_for_uneven_routing() {
  return {{.ranks = 4, .strategy = {.ep = 4, .zero = 1}},
          {.ranks = 4, .strategy = {.ep = 4, .expert_copies = 6, .zero = 3}},
          {.ranks = 4, .strategy = {.tp = 2, .ep = 4, .expert_rows = kObservedRows, .zero = 1}},
          {.ranks = 6, .strategy = {.tp = 3, .ep = 3, .expert_tp = 2, .expert_copies = 1}},
          {.ranks = 4, .strategy = {.ep = 2, .zero = 3}, .recompute = {.full_blocks = 9}},
          {.ranks = 4, .strategy = {.tp = 2, .ep = 4, .tp_sequence = false}},
          {.ranks = 4, .strategy = {.sp = 2, .ep = 2, .expert_tp = 2, .zero = 2}},
          {.ranks = 8,
           .strategy = {.pp = 2, .tp = 2, .ep = 4, .pp_schedule = "zb-h1", .zero = 1},
           .micro_batch = 1},
          {.ranks = 8, .strategy = {.tp = 4, .ep = 2, .tensor_mode = TensorMode::two_d}}};
}

// Each routing at each layout, or at every second one.
enum class Pairs : uint8_t { half, all };

void expect_uneven_routing_is_serial(Pairs pairs) {
  constexpr double kNever = -1e6, kAlways = 50;
  const std::vector<std::pair<const char*, std::vector<double>>> routings{
      {"an expert has no token", {0, 0, kNever, 0, 0, 0}},
      {"the first rank's experts have none", {kNever, kNever, kNever, 0, 0, 0}},
      {"the last ranks' experts have none", {0, 0, kNever, kNever, kNever, kNever}},
      {"two experts have all", {kNever, kAlways, kNever, kNever, kAlways, kNever}}};
  int64_t first = 0;
  for (const auto& [name, biases] : routings) {
    int64_t turn = first++;
    const TinyResult serial = train_tiny(with_biases(training_of({}), biases), 1);
    for (const Layout& layout : layouts_for_uneven_routing()) {
      if (pairs == Pairs::half && turn++ % 2 == 1) continue;
      TRACED_CASE(fmt::format("{}: {}", name, describe(layout)));
      const TinyTraining training = with_biases(training_of(layout), biases);
      expect_same(train_tiny(training, layout.ranks), serial, 1e-9, training);
    }
  }
}

TEST(ExpertLayouts, ExpertsRanksAndGroupsWithoutTokensTrainAsOnOneRank) {
  expect_uneven_routing_is_serial(Pairs::half);
}

TEST(SlowExpertLayouts, ExpertsRanksAndGroupsWithoutTokensTrainAsOnOneRank) {
  expect_uneven_routing_is_serial(Pairs::all);
}

// All tokens choose one expert, and a single token is all that there is.
TEST(ExpertLayouts, OneExpertForAllAndOneTokenTrainAsOnOneRank) {
  const auto one_expert = [](TinyTraining training) {
    training.model.router.chosen = 1;
    return with_biases(std::move(training), {0, 0, 0, 0, 50, 0});
  };
  const TinyResult serial = train_tiny(one_expert(training_of({})), 1);
  for (const Layout& layout : layouts_for_uneven_routing()) {
    TRACED_CASE(fmt::format("one expert: {}", describe(layout)));
    const TinyTraining training = one_expert(training_of(layout));
    expect_same(train_tiny(training, layout.ranks), serial, 1e-9, training);
  }
  const auto one_token = [](const Layout& layout) {
    TinyTraining training = training_of(layout);
    training.global_batch = training.sequence = 1;
    return training;
  };
  const TinyResult serial_token = train_tiny(one_token({}), 1);
  for (const Layout& layout : std::vector<Layout>{
           {.ranks = 4, .strategy = {.tp = 4, .ep = 4}},
           {.ranks = 3, .strategy = {.tp = 3, .ep = 3, .zero = 1, .tp_sequence = false}},
           {.ranks = 4, .strategy = {.tp = 4, .ep = 2, .tensor_mode = TensorMode::two_d}},
           {.ranks = 8,
           .strategy = {.pp = 2, .tp = 4, .ep = 4, .pp_schedule = "1f1b"},
           .micro_batch = 1}}) {
    TRACED_CASE(fmt::format("one token: {}", describe(layout)));
    const TinyTraining training = one_token(layout);
    expect_same(train_tiny(training, layout.ranks), serial_token, 1e-9, training);
  }
}

// Each expert takes at most 3 of a sequence's 7 tokens, or 2: which ones must not depend on who
// routes them.
void expect_dropped_alike(Pairs pairs) {
  const auto with_capacity = [](TinyTraining training, double factor) {
    training.model.router.capacity_factor = factor;
    return training;
  };
  const TinyResult dropless = train_tiny(training_of({}), 1);
  int64_t first = 0;
  for (const double factor : {1.0, 0.7}) {
    int64_t turn = first++;
    const TinyResult serial = train_tiny(with_capacity(training_of({}), factor), 1);
    EXPECT_GT(serial.metrics.back().at("router_dropped"), 0.01);
    EXPECT_NE(serial.losses.front(), dropless.losses.front());
    for (const Strategy& mode : tensor_modes()) {
      for (Layout layout : std::vector<Layout>{
               {.strategy = {.ep = 2}},
               {.strategy = {.sp = 2, .ep = 2, .sequence_mode = SequenceMode::ring}},
               {.strategy = {.sp = 3, .sequence_mode = SequenceMode::ulysses}},
               {.strategy = {.pp = 2, .zero = 1}, .micro_batch = 2},
               {.strategy = {.zero = 3}, .recompute = {.full_blocks = 9}}}) {
        layout.strategy.tp = mode.tp;
        layout.strategy.tensor_mode = mode.tensor_mode;
        layout.strategy.tp_depth = mode.tp_depth;
        layout.strategy.tp_sequence = mode.tp_sequence;
        layout.ranks = layout.strategy.pp * layout.strategy.sp * mode.tp;
        if (mode.tp == 1 && layout.strategy.sp == 1) layout.ranks *= 2;  // of dp
        if (!is_possible(layout)) continue;
        if (pairs == Pairs::half && turn++ % 2 == 1) continue;
        TRACED_CASE(describe(layout));
        const TinyTraining training = with_capacity(training_of(layout), factor);
        const TinyResult found = train_tiny(training, layout.ranks);
        expect_same(found, serial, 1e-9, training);
        EXPECT_NEAR(found.metrics.back().at("router_dropped"),
                    serial.metrics.back().at("router_dropped"), 1e-12);
      }
    }
  }
}

TEST(ExpertLayouts, WhatIsBeyondTheCapacityIsDroppedAlike) {
  expect_dropped_alike(Pairs::half);
}

TEST(SlowExpertLayouts, WhatIsBeyondTheCapacityIsDroppedAlike) {
  expect_dropped_alike(Pairs::all);
}

// Over the ranks that route tokens of the same sequences go, for each token, its sequence, its
// position, its experts and their weights.
TEST(ExpertLayouts, BytesOfChoicesEqualTheLaw) {
  const Layout layout{.ranks = 4,
                      .strategy = {.sp = 2, .tp = 2, .sequence_mode = SequenceMode::ulysses}};
  TinyTraining training = training_of(layout);
  training.model.router.capacity_factor = 1;
  const TinyResult result = train_tiny(training, layout.ranks);
  const int64_t layers = 2, token = 8 * (2 + 2 * kChosen);
  for (int rank = 0; rank < layout.ranks; ++rank) {
    const int64_t positions = rank < 2 ? 4 : 3;  // of 7, over sp
    const int64_t tokens = training.global_batch * positions;
    const auto sent = [&](const char* axis) {
      return result.traffic[rank].at({axis, comm::Reason::expert}).law_bytes;
    };
    EXPECT_EQ(sent("tp"), training.steps * layers * (8 + tokens / 2 * token));
    EXPECT_EQ(sent("sp"), training.steps * layers * (8 + tokens * token));
  }
}

// GPT-OSS's, whose second biases all parts of an expert have.
TEST(ExpertLayouts, ExpertsWithBiasesTrainAsOnOneRank) {
  const auto training_with_biases = [](const Layout& layout) {
    TinyTraining training = training_of(layout);
    training.model = tiny_gpt_oss(3);
    return training;
  };
  const TinyResult serial = train_tiny(training_with_biases({}), 1);
  for (const Layout& layout : std::vector<Layout>{
           {.ranks = 2, .strategy = {.expert_tp = 2, .zero = 1}},
           {.ranks = 4, .strategy = {.ep = 2, .expert_tp = 2, .expert_copies = 2, .zero = 1}},
           {.ranks = 3, .strategy = {.tp = 3, .expert_tp = 3}},
           {.ranks = 4, .strategy = {.tp = 2, .ep = 2, .expert_tp = 2, .zero = 3}},
           {.ranks = 4, .strategy = {.sp = 2, .expert_tp = 2, .zero = 2}, .on_host = true},
           {.ranks = 4, .strategy = {.tp = 4, .expert_tp = 4, .tensor_mode = TensorMode::two_d}},
           {.ranks = 8,
           .strategy = {.pp = 2, .tp = 2, .ep = 2, .expert_tp = 2, .zero = 1},
           .micro_batch = 1,
           .recompute = {.full_blocks = 9}}}) {
    TRACED_CASE(describe(layout));
    const TinyTraining training = training_with_biases(layout);
    expect_same(train_tiny(training, layout.ranks), serial, 1e-9, training);
  }
}

// Some ranks have nothing to evaluate; their experts still serve the others.
TEST(ExpertLayouts, RanksWithoutSequencesTakePartInEvaluation) {
  // A task's batch without sequences may have no fields that its loss needs.
  const HeadLoss loss_of_some = [](models::Model& language_model, const nn::BlockState& state,
                                   const data::Batch& batch, const nn::StepContext& step) {
    EXPECT_GT(batch.rows(), 0);
    return cross_entropy(language_model, state, batch, step);
  };
  const auto loss_at = [&](const Layout& layout, const std::vector<int64_t>& sequences) {
    const TinyTraining training = training_of(layout);
    double mean = 0;
    run_ranks(layout.ranks, [&](comm::World& world) {
      const ParallelContext context(world, strategy_of(training, layout.ranks));
      const auto build = parallel::make_builder(context, training.shardings());
      const auto make = [&](nn::Builder& into) {
        return std::make_unique<models::Transformer>(into, training.model);
      };
      const auto model = make(*build);
      EngineConfig config;
      config.precision = {.compute = at::kDouble, .master = at::kDouble, .gradient = at::kDouble};
      Engine engine(
          build->parameters(),
          pipelined(*model,
                    {.shardings = training.shardings(), .make = make, .compute = at::kDouble},
                    context, loss_of_some),
          context, config);
      engine.chunks().initialise(7);
      // Replica r has sequences[r] of them, in micro-batches of one.
      const int replica = context.coordinate(Axis::dp);
      const auto first =
          std::accumulate(sequences.begin(), sequences.begin() + replica, int64_t{0});
      std::vector<data::Batch> batches;
      for (int64_t i = 0; i < *std::ranges::max_element(sequences); ++i) {
        const bool has_one = i < sequences[replica];
        batches.push_back(tiny_batch(training, 0, has_one ? first + i : 0, has_one ? 1 : 0));
      }
      const Engine::Evaluation evaluation = engine.evaluate(batches);
      if (world.rank() == 0) mean = evaluation.mean();
    });
    return mean;
  };
  const double serial = loss_at({}, {5});
  const auto expect_at = [&](const Layout& layout, const std::vector<int64_t>& sequences) {
    TRACED_CASE(describe(layout));
    EXPECT_NEAR(loss_at(layout, sequences), serial, 1e-12 * serial);
  };
  expect_at({.ranks = 2, .strategy = {.ep = 2}}, {4, 1});
  expect_at({.ranks = 4, .strategy = {.ep = 4, .zero = 3}}, {0, 3, 2, 0});
  expect_at({.ranks = 4, .strategy = {.tp = 2, .ep = 4, .tp_sequence = false}}, {5, 0});
  expect_at({.ranks = 4, .strategy = {.tp = 2, .ep = 2}}, {1, 4});
  expect_at({.ranks = 4, .strategy = {.sp = 2, .ep = 4}}, {0, 5});
  expect_at({.ranks = 4, .strategy = {.pp = 2, .ep = 2}}, {0, 5});
  expect_at({.ranks = 8, .strategy = {.tp = 4, .ep = 4, .tensor_mode = TensorMode::two_d}}, {5, 0});
}

// Of a rank whose experts come from `rank` of `ep`, in all steps: what routing to two experts, one
// row of each token for each, makes of the laws.
int64_t expert_bytes(const TinyTraining& training, int64_t tokens_of_rank, const Partition& experts,
                     int rank, const std::vector<int64_t>& chosen, int forwards) {
  constexpr int64_t kLayers = 2, kNumber = 8;
  int64_t kept = 0, of_others = 0;
  for (const int64_t expert : chosen) {
    if (intersect(experts.range(rank), {expert, expert + 1}).empty()) continue;
    kept += tokens_of_rank;
    of_others += (experts.parts() - 1) * tokens_of_rank;
  }
  const int64_t sent = std::ssize(chosen) * tokens_of_rank - kept;
  const int64_t rows = (sent + of_others) * training.model.hidden * kNumber;
  const int64_t counts = 8 * (kExperts - experts.range(rank).size());
  return training.steps * kLayers * (forwards * (counts + rows) + rows);
}

// Each token goes to experts 1 and 4, whose ranks then have all rows.
TEST(ExpertLayouts, BytesEqualTheLawsForTheRoutedCounts) {
  const std::vector<double> biases{-1e6, 50, -1e6, -1e6, 50, -1e6};
  for (const Layout& layout :
       std::vector<Layout>{{.ranks = 4, .strategy = {.ep = 4}},
                           {.ranks = 4, .strategy = {.ep = 2, .zero = 1}},
                           {.ranks = 4, .strategy = {.tp = 2, .ep = 4}},
                           {.ranks = 4, .strategy = {.tp = 2, .ep = 2, .tp_sequence = false}},
                           {.ranks = 4, .strategy = {.ep = 2}, .recompute = {.full_blocks = 9}}}) {
    TRACED_CASE(describe(layout));
    const TinyTraining training = with_biases(training_of(layout), biases);
    const Partition experts(kExperts, layout.strategy.ep);
    const TinyResult result = train_tiny(training, layout.ranks);
    const int64_t tokens = training.global_batch * training.sequence / layout.ranks;
    const int forwards = layout.recompute.full_blocks > 0 ? 2 : 1;
    int64_t gradients = 0;
    for (int rank = 0; rank < layout.ranks; ++rank) {
      const std::map<comm::Ledger::Key, comm::Traffic>& sent = result.traffic[rank];
      EXPECT_EQ(
          sent.at({"ep", comm::Reason::expert}).law_bytes,
          expert_bytes(training, tokens, experts, rank % layout.strategy.ep, {1, 4}, forwards))
          << rank;
      const auto found = sent.find({"expert_dp", comm::Reason::gradient});
      if (found != sent.end()) gradients += found->second.law_bytes;
    }
    // Sums over the ranks with the same experts: all-reduces, with ZeRO reduce-scatters.
    const int64_t same = layout.ranks / layout.strategy.ep;
    const int64_t weights = 2 * 3 * kExperts * training.model.expert_inner * training.model.hidden;
    EXPECT_EQ(gradients,
              training.steps * (layout.strategy.zero == 0 ? 2 : 1) * (same - 1) * 8 * weights);
  }
}

// Of the same routing both experts are copied to all ranks: rows stay, weights and their gradients
// travel.
TEST(ExpertLayouts, BytesOfCopiesEqualTheLaws) {
  const std::vector<double> biases{-1e6, 50, -1e6, -1e6, 50, -1e6};
  for (Layout layout :
       std::vector<Layout>{{.ranks = 4, .strategy = {.ep = 4}},
                           {.ranks = 4, .strategy = {.tp = 2, .ep = 4, .tp_sequence = false}},
                           {.ranks = 4, .strategy = {.ep = 4}, .recompute = {.full_blocks = 9}}}) {
    layout.strategy.expert_copies = 3;
    TRACED_CASE(describe(layout));
    const TinyTraining training = with_biases(training_of(layout), biases);
    const TinyResult serial = train_tiny(with_biases(training_of({}), biases), 1);
    const TinyResult result = train_tiny(training, layout.ranks);
    expect_same(result, serial, 1e-9, training);
    const int ep = layout.strategy.ep;
    const Partition experts(kExperts, ep);
    const int forwards = layout.recompute.full_blocks > 0 ? 2 : 1;
    const int64_t expert = 8 * 3 * training.model.expert_inner * training.model.hidden;
    constexpr int64_t kLayers = 2;
    for (int rank = 0; rank < layout.ranks; ++rank) {
      int64_t own = 0;
      for (const int64_t copied : {1, 4}) {
        own += intersect(experts.range(rank % ep), {copied, copied + 1}).empty() ? 0 : expert;
      }
      const int64_t forward = 8 * (ep - 1) * kExperts + (ep - 1) * own;
      EXPECT_EQ(result.traffic[rank].at({"ep", comm::Reason::expert}).law_bytes,
                training.steps * kLayers * (forwards * forward + 2 * expert - own))
          << rank;
    }
    EXPECT_EQ(result.metrics.back().at("expert_copies"), 2 * kLayers);
  }
}

// One micro-batch a step.
std::vector<Layout> layouts_of_every_kind() {
  return {{.ranks = 2},
          {.ranks = 4, .strategy = {.ep = 4, .zero = 3}, .recompute = {.full_blocks = 9}},
          {.ranks = 4, .strategy = {.tp = 2, .ep = 2, .zero = 1}},
          {.ranks = 6, .strategy = {.tp = 3, .ep = 6, .tp_sequence = false}},
          {.ranks = 3, .strategy = {.sp = 3, .ep = 3}, .recompute = {.selective = true}},
          {.ranks = 8, .strategy = {.tp = 4, .ep = 4, .zero = 2, .tensor_mode = TensorMode::two_d}},
          {.ranks = 8, .strategy = {.tp = 8, .ep = 4, .tensor_mode = TensorMode::three_d}},
          {.ranks = 8,
           .strategy = {.pp = 2, .sp = 2, .ep = 2, .pp_schedule = "zb-h1", .zero = 1},
           .micro_batch = 4},
          {.ranks = 4, .strategy = {.pp = 2, .tp = 2}, .micro_batch = 8}};
}

// Of statistics over the tokens of all replicas, of all layers or of each sequence, wherever these
// are: a step is one micro-batch.
TEST(ExpertLayouts, LossesOfRoutersAreTheSameAtEveryLayout) {
  using Losses = nn::RouterLosses;
  for (const Losses& losses : {Losses{.balance = 0.5, .over = Losses::Over::sequence, .z = 0.01},
                               Losses{.balance = 0.5, .over = Losses::Over::micro_batch},
                               Losses{.balance = 0.5, .over = Losses::Over::layers, .z = 0.01}}) {
    const auto with_losses = [&](const Layout& layout) {
      TinyTraining training = training_of(layout);
      training.model.router_losses = losses;
      return training;
    };
    const TinyResult serial = train_tiny(with_losses({}), 1);
    EXPECT_GT(serial.metrics.front().at("auxiliary_loss"), 0.1);
    for (const Layout& layout : layouts_of_every_kind()) {
      TRACED_CASE(fmt::format("over {}: {}", static_cast<int>(losses.over), describe(layout)));
      const TinyTraining training = with_losses(layout);
      const TinyResult result = train_tiny(training, layout.ranks);
      expect_same(result, serial, 1e-9, training);
      for (size_t step = 0; step < serial.metrics.size(); ++step) {
        for (const char* name : {"auxiliary_loss", "router_load"}) {
          const double expected = serial.metrics[step].at(name);
          EXPECT_NEAR(result.metrics[step].at(name), expected, 1e-9 * expected) << name;
        }
      }
    }
  }
}

// Routers as DeepSeek-V3's: sigmoids, and a bias that takes part in choosing only.
TEST(ExpertLayouts, BiasesOfRoutersMoveAlikeAtEveryLayout) {
  constexpr double kRate = 0.05;
  const auto with_bias = [&](const Layout& layout, double rate) {
    TinyTraining training = training_of(layout);
    training.model.router.scores = nn::RouterOptions::Scores::sigmoid;
    training.model.router.correction_bias = true;
    training.router_bias_rate = rate;
    training.steps = 6;
    return training;
  };
  const TinyResult serial = train_tiny(with_bias({}, kRate), 1);
  const at::Tensor moved = serial.weights.at("blocks.1.router.correction_bias");
  EXPECT_GT(moved.abs().max().item<double>(), kRate);
  EXPECT_LE(moved.abs().max().item<double>(), 6 * kRate + 1e-12);
  const TinyResult unmoved = train_tiny(with_bias({}, 0), 1);
  EXPECT_LT(serial.metrics.back().at("router_load"), unmoved.metrics.back().at("router_load"));
  for (const Layout& layout : std::vector<Layout>{
           {.ranks = 4, .strategy = {.ep = 4, .zero = 3}},
           {.ranks = 4, .strategy = {.tp = 2, .ep = 2, .zero = 1}, .micro_batch = 2},
           {.ranks = 4, .strategy = {.pp = 2, .ep = 2, .zero = 1}, .micro_batch = 1},
           {.ranks = 4, .strategy = {.sp = 2}, .on_host = true}}) {
    TRACED_CASE(describe(layout));
    const TinyTraining training = with_bias(layout, kRate);
    expect_same(train_tiny(training, layout.ranks), serial, 1e-9, training);
  }
}

// In bf16 a step of 0.001 would be lost beside a bias of 0.5.
TEST(ExpertLayouts, BiasesOfRoutersAreHeldInFp32) {
  constexpr double kRate = 1e-3;
  TinyTraining training = training_of({.strategy = {.ep = 2}});
  training.model.router.scores = nn::RouterOptions::Scores::sigmoid;
  training.model.router.correction_bias = true;
  training.router_bias_rate = kRate;
  training.compute = training.gradient = at::kBFloat16;
  training.steps = 6;
  const at::Tensor start = at::full({kExperts}, 0.5, at::kDouble);
  training.initial["blocks.1.router.correction_bias"] = start;
  const at::Tensor moved = train_tiny(training, 2).weights.at("blocks.1.router.correction_bias");
  const at::Tensor steps = (moved - start) / kRate;
  EXPECT_LE((steps - steps.round()).abs().max().item<double>(), 1e-3);
  EXPECT_GE(steps.abs().sum().item<double>(), 6);
}

// An MLP beside the experts, which all tokens go through while some travel.
TEST(ExpertLayouts, SharedExpertsTrainAsOnOneRank) {
  for (const bool gate : {false, true}) {
    const auto with_shared = [&](const Layout& layout) {
      TinyTraining training = training_of(layout);
      training.model.shared_inner = 14;
      training.model.shared_gate = gate;
      return training;
    };
    const TinyResult serial = train_tiny(with_shared({}), 1);
    for (const Layout& layout : layouts_of_every_kind()) {
      TRACED_CASE(fmt::format("gate {}: {}", gate, describe(layout)));
      const TinyTraining training = with_shared(layout);
      expect_same(train_tiny(training, layout.ranks), serial, 1e-9, training);
    }
  }
}

// Gradients go through frozen experts, which are shared out all the same.
TEST(ExpertLayouts, AdaptersBesideFrozenExpertsTrainAsOnOneRank) {
  const auto adapted = [](const Layout& layout) {
    TinyTraining training = training_of(layout);
    training.adapter = nn::AdapterOptions{
        .rank = 2, .adapted = [](const std::string& product) -> std::optional<std::string> {
          if (!product.ends_with("query")) return std::nullopt;
          return product;
        }};
    return training;
  };
  const TinyResult serial = train_tiny(adapted({}), 1);
  for (const Layout& layout : layouts_of_every_kind()) {
    TRACED_CASE(describe(layout));
    const TinyTraining training = adapted(layout);
    expect_same(train_tiny(training, layout.ranks), serial, 1e-9, training);
  }
}

}  // namespace
}  // namespace colossal::test::expert_layouts
