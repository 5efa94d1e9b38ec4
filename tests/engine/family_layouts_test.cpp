// Every family with every feature: a small model of each trains there as it does on one rank. The
// names of families and features are the rows and columns of the table in docs/models.md.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "colossal/data/text_batch.h"
#include "colossal/models/families.h"
#include "tests/support/pairwise.h"
#include "tests/support/run_ranks.h"
#include "tests/support/small_families.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tiny_training.h"

namespace colossal::test::family_layouts {
namespace {

struct Feature {
  std::string name;  // as the table has it
  int ranks = 1;
  Strategy layout{};
  memory::Recompute recompute{};
  memory::TierShares tier{};
  bool documents = false;
};

Strategy pipeline() {
  Strategy layout;
  layout.pp = 2;
  layout.stage_ranks = {0, 1};
  return layout;
}

const std::vector<Feature>& features() {
  static const std::vector<Feature> kFeatures{
      {.name = "dp", .ranks = 3},
      {.name = "ZeRO 3", .ranks = 3, .layout = {.zero = 3}},
      {.name = "1d", .ranks = 3, .layout = {.tp = 3}},
      {.name = "1d, copied tokens", .ranks = 2, .layout = {.tp = 2, .tp_sequence = false}},
      {.name = "2d", .ranks = 4, .layout = {.tp = 4, .tensor_mode = TensorMode::two_d}},
      {.name = "2.5d",
       .ranks = 8,
       .layout = {.tp = 8, .tensor_mode = TensorMode::two_and_half_d, .tp_depth = 2}},
      {.name = "3d", .ranks = 8, .layout = {.tp = 8, .tensor_mode = TensorMode::three_d}},
      {.name = "ring", .ranks = 3, .layout = {.sp = 3}},
      {.name = "Ulysses", .ranks = 3, .layout = {.sp = 3, .sequence_mode = SequenceMode::ulysses}},
      {.name = "pp", .ranks = 2, .layout = pipeline()},
      {.name = "tiers", .ranks = 2, .layout = {.zero = 3}, .tier = {.host = 1}},
      {.name = "recompute", .recompute = {.selective = true, .full_blocks = 1}},
      {.name = "documents", .ranks = 2, .layout = {.sp = 2}, .documents = true},
  };
  return kFeatures;
}

models::TransformerConfig small(const std::string& family) {
  const TemporaryDirectory folder;
  return models::resolve_model({.path = write_config(folder.path(), small_config(family))})
      .transformer;
}

// Sources of other lengths than the targets, padded to the longest of their micro-batch. With
// documents, each document of a target attends to that of the same number in its source.
void add_sources(data::Batch& batch) {
  const auto length_of = [](int64_t sample) { return 8 - sample % 12 / 4; };
  int64_t longest = 0;
  for (const int64_t sample : batch.sample_ids) longest = std::max(longest, length_of(sample));
  const at::Tensor source = at::zeros({std::ssize(batch.sample_ids), longest}, at::kLong);
  const at::Tensor documents = at::full_like(source, -1);
  for (int64_t row = 0; row < source.size(0); ++row) {
    const int64_t sample = batch.sample_ids[row], length = length_of(sample);
    const at::Tensor positions = at::arange(length, at::kLong);
    source[row].narrow(0, 0, length).copy_((positions * 7 + sample * 31 + 5).remainder(90) + 2);
    documents[row]
        .narrow(0, 0, length)
        .copy_(batch.has(data::kDocuments) ? positions.div(4, "floor") : positions * 0);
  }
  batch.set(data::kSource, source, 1);
  batch.set(data::kSourceDocuments, documents);
}

TinyTraining training_of(const std::string& family, const Feature& feature) {
  TinyTraining training;
  training.model = small(family);
  if (feature.documents) training.end_of_document = 3;
  if (const int64_t types = training.model.token_types; types > 1) {
    training.fields = [types](data::Batch& batch) {
      batch.set(data::kTokenTypes, batch.at(data::kTokens).remainder(types), 1);
    };
  }
  if (training.model.encoder_layers > 0) training.fields = add_sources;
  return training;
}

void expect_parity(const std::string& family, const Feature& feature) {
  TRACED_CASE(family + ", " + feature.name);
  TinyTraining training = training_of(family, feature);
  const TinyResult expected = train_tiny(training, 1);
  training.layout = feature.layout;
  if (training.layout.pp > 1) {
    training.layout.stage_blocks = {1, training.model.layers - 1};
    training.micro_batch = 5;
  }
  training.recompute = feature.recompute;
  training.tiers = {.parameters = feature.tier,
                    .gradients = feature.tier,
                    .optimizer = feature.tier,
                    .activations = feature.tier};
  expect_same(train_tiny(training, feature.ranks), expected, 1e-9, training);
}

// Every family, and every feature, in turns.
TEST(FamilyLayouts, EveryFamilySomewhere) {
  const std::vector<std::string> families = family_names();
  for (size_t i = 0; i < families.size(); ++i) {
    expect_parity(families[i], features()[(5 * i + 3) % features().size()]);
  }
}

TEST(SlowFamilyLayouts, EveryFamilyWithEveryFeature) {
  for (const std::string& family : family_names()) {
    for (const Feature& feature : features()) expect_parity(family, feature);
  }
}

// One sequence at a time, which some of the ranks lack.
TEST(FamilyLayouts, RanksWithoutSequences) {
  for (const char* family : {"bert", "bart"}) {
    TinyTraining training = training_of(family, {});
    const TinyResult expected = train_tiny(training, 1);
    training.micro_batch = 1;
    for (const Feature& feature : features()) {
      if (feature.layout.tensor_mode == TensorMode::one_d) continue;
      TRACED_CASE(std::string(family) + ", " + feature.name);
      training.layout = feature.layout;
      expect_same(train_tiny(training, feature.ranks), expected, 1e-9, training);
    }
  }
}

// Also where attention to the encoder's output, the MLP's inner features and the two embeddings
// drop out.
void expect_the_same_dropout(const std::string& family) {
  const auto training = [&] {
    TinyTraining made = training_of(family, {});
    made.model.embedding_dropout = made.model.attention_dropout = 0.2;
    made.model.attention_output_dropout = made.model.mlp_dropout = 0.2;
    made.model.mlp_inner_dropout = made.model.final_dropout = 0.2;
    return made;
  };
  const TinyResult expected = train_tiny(training(), 1);
  for (const Feature& feature : features()) {
    if (feature.documents) continue;
    TRACED_CASE(family + ", " + feature.name);
    TinyTraining divided = training();
    divided.layout = feature.layout;
    if (divided.layout.pp > 1) divided.layout.stage_blocks = {1, divided.model.layers - 1};
    divided.recompute = feature.recompute;
    expect_same(train_tiny(divided, feature.ranks), expected, 1e-9, divided);
    divided.micro_batch = 5;
    expect_same(train_tiny(divided, feature.ranks), expected, 1e-9, divided);
  }
  for (const int64_t micro_batch : {7, 1}) {
    TRACED_CASE(fmt::format("{}, micro-batches of {}", family, micro_batch));
    TinyTraining divided = training();
    divided.micro_batch = micro_batch;
    expect_same(train_tiny(divided, 1), expected, 1e-9, divided);
  }
}

TEST(FamilyLayouts, EncoderDecodersHaveTheSameDropout) {
  expect_the_same_dropout("bart");
  expect_the_same_dropout("t5");
}

struct Combination {
  size_t family = 0;
  int mode = 0;  // of tensor_modes()
  int ranks = 1;
  Strategy layout{};
};

std::vector<Strategy> tensor_modes() {
  return {{},
          {.tp = 2},
          {.tp = 3, .tp_sequence = false},
          {.tp = 4, .tensor_mode = TensorMode::two_d},
          {.tp = 4, .tensor_mode = TensorMode::two_and_half_d, .tp_depth = 4},
          {.tp = 8, .tensor_mode = TensorMode::three_d}};
}

// Every family with everything else, on at most 8 ranks.
std::vector<Combination> combinations() {
  std::vector<Combination> all;
  const std::vector<Strategy> modes = tensor_modes();
  const std::vector<std::string> families = family_names();
  for (size_t family = 0; family < families.size(); ++family) {
    const int64_t heads = small(families[family]).heads;
    for (int mode = 0; mode < std::ssize(modes); ++mode) {
      for (const auto& [sp, sequence] : {std::pair{1, SequenceMode::ring},
                                         {2, SequenceMode::ring},
                                         {2, SequenceMode::ulysses}}) {
        for (const int pp : {1, 2}) {
          for (const int dp : {1, 2}) {
            for (const int zero : {0, 1, 2, 3}) {
              Combination made{.family = family, .mode = mode, .layout = modes[mode]};
              made.layout.sp = sp;
              made.layout.sequence_mode = sequence;
              made.layout.zero = zero;
              if (pp > 1) {
                made.layout.pp = pp;
                made.layout.stage_ranks = {0, 1};
              }
              made.ranks = pp * dp * sp * made.layout.tp;
              const bool cuts_heads = sequence == SequenceMode::ulysses;
              const int parts = made.layout.head_ranks() * (cuts_heads ? sp : 1);
              if (made.ranks <= 8 && parts <= heads) all.push_back(made);
            }
          }
        }
      }
    }
  }
  return all;
}

std::vector<double> settings_of(const Combination& made) {
  const Strategy& layout = made.layout;
  return {static_cast<double>(made.family),
          static_cast<double>(made.mode),
          layout.sequence_mode == SequenceMode::ulysses ? 3.0 : layout.sp,
          static_cast<double>(layout.pp),
          static_cast<double>(made.ranks / (layout.pp * layout.sp * layout.tp)),
          static_cast<double>(layout.zero)};
}

TEST(SlowFamilyLayouts, EveryPairOfSettings) {
  const std::vector<std::string> families = family_names();
  std::map<size_t, TinyResult> serial;
  for (const Combination& made : pairwise(combinations(), settings_of)) {
    TinyTraining training = training_of(families[made.family], {});
    if (!serial.contains(made.family)) serial[made.family] = train_tiny(training, 1);
    training.layout = made.layout;
    if (made.layout.pp > 1) {
      training.layout.stage_blocks = {1, training.model.layers - 1};
      training.micro_batch = 1;
    }
    TRACED_CASE(fmt::format("{}: {} ranks, tp {} ({}), sp {}, pp {}, ZeRO {}",
                            families[made.family], made.ranks, made.layout.tp,
                            tensor_mode_name(made.layout.tensor_mode), made.layout.sp,
                            made.layout.pp, made.layout.zero));
    expect_same(train_tiny(training, made.ranks), serial.at(made.family), 1e-9, training);
  }
}

// The table of docs/models.md has a row for each family and a column for each feature, and two for
// those of tests/serve/family_inference_test.cpp.
TEST(FamilyLayouts, AreTheTableOfTheDocument) {
  std::ifstream file(std::filesystem::path(COLOSSAL_TEST_SOURCE_DIR) / "docs" / "models.md");
  std::stringstream text;
  text << file.rdbuf();
  std::string header = "| model_type |";
  for (const Feature& feature : features()) header += " " + feature.name + " |";
  header += " generate | evaluate |";
  EXPECT_NE(text.str().find(header + "\n"), std::string::npos) << header;
  for (const std::string& family : family_names()) {
    std::string row = "\n| " + family + " |";
    for (size_t i = 0; i < features().size(); ++i) row += " yes |";
    const models::TransformerConfig model = small(family);
    row += !model.causal ? " no | yes |" : model.encoder_layers > 0 ? " no | no |" : " yes | yes |";
    EXPECT_NE(text.str().find(row + "\n"), std::string::npos) << row;
  }
}

}  // namespace
}  // namespace colossal::test::family_layouts
