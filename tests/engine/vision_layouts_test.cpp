// Vision transformers train at every layout as on one rank. Their images have 13 tokens, which
// divide by nothing.
#include <gtest/gtest.h>

#include <map>

#include "colossal/models/families.h"
#include "tests/support/layout_cases.h"
#include "tests/support/pairwise.h"
#include "tests/support/run_ranks.h"
#include "tests/support/small_families.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tiny_training.h"

namespace colossal::test::vision_layouts {
namespace {

// The models: of each family one that gives images classes, and of those that can, one that is
// pretrained: that reconstructs masked patches, or compares images with texts.
struct Model {
  std::string family;
  bool pretrains = false;
};

std::vector<Model> all_models() {
  std::vector<Model> models;
  for (const std::string& family : vision_family_names()) models.push_back({family});
  for (const char* family : {"vit", "deit", "clip", "siglip"}) {
    models.push_back({family, /*pretrains=*/true});
  }
  return models;
}

std::string name_of(const Model& model) {
  return (model.pretrains ? "pretrained " : "") + model.family;
}

TinyTraining training_of(const Model& model) {
  const TemporaryDirectory folder;
  TinyTraining training;
  const models::ModelSpecification specification =
      models::resolve_model({.path = write_config(folder.path(), small_config(model.family)),
                             .pretrains = model.pretrains});
  training.model = specification.transformer;
  training.text_tower = specification.text_tower;
  EXPECT_EQ(training.model.reconstructs || training.text_tower, model.pretrains);
  training.order_known = true;
  return training;
}

int64_t blocks_of(const TinyTraining& training) {
  return training.model.layers +
         (training.text_tower ? training.text_tower->transformer.layers : 0);
}

// A layout with the settings that do not belong to it.
struct Case {
  size_t model = 0;  // of all_models()
  int ranks = 1;
  Strategy layout{};
  int64_t micro_batch = 0;
  bool recompute = false;
  bool offload = false;
};

std::vector<Strategy> tensor_modes() {
  return {{},
          {.tp = 2},
          {.tp = 3, .tp_sequence = false},
          {.tp = 4, .tensor_mode = TensorMode::two_d},
          {.tp = 4, .tensor_mode = TensorMode::two_and_half_d, .tp_depth = 4},
          {.tp = 8, .tensor_mode = TensorMode::three_d}};
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (size_t model = 0; model < all_models().size(); ++model) {
    for (const Strategy& mode : tensor_modes()) {
      for (const auto& [sp, sequence] : {std::pair{1, SequenceMode::ring},
                                         {2, SequenceMode::ring},
                                         {3, SequenceMode::ulysses}}) {
        for (const int pp : {1, 2}) {
          for (const int dp : {1, 2}) {
            for (const int zero : {0, 1, 2, 3}) {
              for (const int64_t micro_batch : {0, 1, 5}) {
                for (const bool recompute : {false, true}) {
                  for (const bool offload : {false, true}) {
                    Case made{.model = model,
                              .layout = mode,
                              .micro_batch = micro_batch,
                              .recompute = recompute,
                              .offload = offload};
                    made.layout.sp = sp;
                    made.layout.sequence_mode = sequence;
                    made.layout.zero = zero;
                    if (pp > 1) {
                      made.layout.pp = pp;
                      made.layout.stage_ranks = {0, 1};
                    }
                    made.ranks = pp * dp * sp * mode.tp;
                    const int parts =
                        mode.head_ranks() * (sequence == SequenceMode::ulysses ? sp : 1);
                    if (made.ranks <= 8 && 6 % parts == 0) all.push_back(made);
                  }
                }
              }
            }
          }
        }
      }
    }
  }
  return all;
}

std::vector<double> settings_of(const Case& made) {
  return layout_settings(made.layout,
                         {static_cast<double>(made.model), static_cast<double>(made.ranks),
                          static_cast<double>(made.micro_batch), made.recompute ? 1.0 : 0.0,
                          made.offload ? 1.0 : 0.0});
}

void expect_parity(const std::vector<Case>& cases) {
  std::map<size_t, TinyResult> serial;
  for (const Case& made : cases) {
    const Model model = all_models()[made.model];
    TinyTraining training = training_of(model);
    if (!serial.contains(made.model)) serial[made.model] = train_tiny(training, 1);
    training.layout = made.layout;
    training.micro_batch = made.micro_batch;
    if (made.layout.pp > 1) training.layout.stage_blocks = {1, blocks_of(training) - 1};
    if (made.recompute) training.recompute = {.selective = true, .full_blocks = 1};
    if (made.offload) {
      const memory::TierShares host{.host = 1};
      training.tiers = {
          .parameters = host, .gradients = host, .optimizer = host, .activations = host};
    }
    TRACED_CASE(fmt::format("{}: {} ranks, {}, micro-batches of {}{}{}", name_of(model), made.ranks,
                            layout_name(made.layout), made.micro_batch,
                            made.recompute ? ", recompute" : "", made.offload ? ", offload" : ""));
    expect_same(train_tiny(training, made.ranks), serial.at(made.model), 1e-9, training);
  }
}

TEST(VisionLayouts, EveryPairOfSettings) {
  expect_parity(pairwise(all_cases(), settings_of));
}

TEST(VisionLayouts, PretrainingAtEveryKindOfLayout) {
  std::vector<Case> cases;
  for (size_t model = 0; model < all_models().size(); ++model) {
    if (!all_models()[model].pretrains) continue;
    for (const Strategy& mode : tensor_modes()) {
      cases.push_back({.model = model, .ranks = mode.tp, .layout = mode, .micro_batch = 5});
    }
    cases.push_back({.model = model, .ranks = 3, .layout = {.sp = 3}});
    cases.push_back(
        {.model = model, .ranks = 2, .layout = {.sp = 2, .sequence_mode = SequenceMode::ulysses}});
    cases.push_back({.model = model, .ranks = 2, .layout = {.pp = 2, .stage_ranks = {0, 1}}});
    cases.push_back({.model = model, .ranks = 4});  // dp
    cases.push_back({.model = model, .ranks = 3, .layout = {.zero = 3}, .micro_batch = 1});
  }
  expect_parity(cases);
}

// Each image is compared with the texts of the whole global batch, also with those of other
// micro-batches and replicas; with dropout both passes of a step see the same masks.
TEST(VisionLayouts, ImagesAndTextsAreComparedOverAllReplicas) {
  TinyTraining training = training_of({"clip", /*pretrains=*/true});
  training.model.attention_dropout = training.text_tower->transformer.attention_dropout = 0.1;
  const TinyResult serial = train_tiny(training, 1);
  for (const int dp : {1, 2, 3, 4}) {
    for (const int64_t micro_batch : {0, 1, 2}) {
      training.micro_batch = micro_batch;
      TRACED_CASE(fmt::format("dp = {}, micro-batches of {}", dp, micro_batch));
      expect_same(train_tiny(training, dp), serial, 1e-9, training);
    }
  }
  // The stages are cut within each tower and between them.
  for (const std::vector<int64_t>& blocks : {std::vector<int64_t>{1, 4}, {2, 3}, {3, 2}, {4, 1}}) {
    training.micro_batch = 2;
    training.layout = {.pp = 2, .stage_ranks = {0, 1}, .stage_blocks = blocks};
    TRACED_CASE(fmt::format("stages of {} blocks", fmt::join(blocks, " and ")));
    expect_same(train_tiny(training, 4), serial, 1e-9, training);
  }
}

// The bytes of the comparison: counts of rows, vectors, and with softmax normalizers of rows.
TEST(VisionLayouts, TheComparisonSendsWhatItsLawSays) {
  for (const char* family : {"clip", "siglip"}) {
    TinyTraining training = training_of({family, /*pretrains=*/true});
    training.micro_batch = 1;
    const bool softmax = training.text_tower->loss == models::TextTower::Loss::softmax;
    for (const int dp : {1, 2, 3}) {
      TRACED_CASE(fmt::format("{}, dp = {}", family, dp));
      const TinyResult result = train_tiny(training, dp);
      for (const auto& traffic : result.traffic) {
        int64_t data = 0;
        for (const auto& [key, bytes] : traffic) {
          if (key.reason == comm::Reason::data) data += bytes.law_bytes;
        }
        const int64_t numbers = 2 * training.text_tower->features + (softmax ? 2 : 0);
        EXPECT_EQ(data, training.steps * (dp - 1) * training.global_batch / dp * numbers * 8);
      }
    }
  }
}

}  // namespace
}  // namespace colossal::test::vision_layouts
