#include "colossal/optim/parameter_groups.h"

#include <gmock/gmock.h>

#include "colossal/base/config_schema.h"
#include "colossal/base/error.h"

namespace colossal::optim {
namespace {

nn::ParameterHandle parameter(std::string name, std::vector<int64_t> shape) {
  return nn::ParameterHandle(std::make_shared<nn::Parameter>(
      nn::Parameter{.name = std::move(name), .shape = std::move(shape)}));
}

TEST(ParameterGroups, WeightDecayIsForTensorsOfTwoDims) {
  const ParameterGroups groups({.weight_decay = 0.3});
  EXPECT_EQ(groups.rule(*parameter("a.weight", {2, 3})).weight_decay, 0.3);
  EXPECT_EQ(groups.rule(*parameter("a.bias", {3})).weight_decay, 0);
}

TEST(ParameterGroups, TheLastMatchWins) {
  const ParameterGroups groups(
      {.groups = {{.pattern = "mlp", .name = "sgd", .learning_rate_scale = 2},
                  {.pattern = R"(^blocks\.1\.)", .weight_decay = 0.5, .frozen = true}}});
  const UpdateRule of_mlp = groups.rule(*parameter("blocks.0.mlp.weight", {2, 3}));
  EXPECT_EQ(of_mlp.learning_rate_scale, 2);
  EXPECT_THAT(of_mlp.optimizer->state_names(), testing::IsEmpty());
  EXPECT_FALSE(of_mlp.frozen);
  const UpdateRule of_block = groups.rule(*parameter("blocks.1.mlp.bias", {3}));
  EXPECT_EQ(of_block.learning_rate_scale, 1);
  EXPECT_EQ(of_block.weight_decay, 0.5);
  EXPECT_TRUE(of_block.frozen);
  EXPECT_EQ(of_block.optimizer->state_names().size(), 2);
}

TEST(ParameterGroups, MuonUpdatesTheMatricesOfLayers) {
  const ParameterGroups groups({.name = "muon"});
  const auto is_muon = [&](const nn::ParameterHandle& parameter) {
    return groups.rule(*parameter).optimizer->as_matrix_optimizer() != nullptr;
  };
  const nn::ParameterHandle layer = parameter("linear.weight", {4, 4});
  EXPECT_FALSE(is_muon(layer));  // of no product
  layer->product = nn::WeightOrder::out_in;
  EXPECT_TRUE(is_muon(layer));
  layer->role = nn::ParameterRole::head_table;
  EXPECT_FALSE(is_muon(layer));
  EXPECT_THROW(groups.apply({layer}), ConfigError);  // no matrix at all
  layer->role = nn::ParameterRole::other;
  EXPECT_NO_THROW(groups.apply({layer, parameter("table.weight", {4, 4})}));
  const ParameterGroups of_tables({.groups = {{.pattern = "table", .name = "muon"}}});
  EXPECT_THROW(of_tables.apply({layer, parameter("table.weight", {4, 4})}), ConfigError);
}

TEST(ParameterGroups, OneOptimizerServesAllTensorsIfItCan) {
  const auto shares = [](const std::string& name) {
    const ParameterGroups groups({.name = name});
    return groups.rule(*parameter("a", {2, 2})).optimizer ==
           groups.rule(*parameter("b", {2})).optimizer;
  };
  EXPECT_TRUE(shares("adamw"));
  EXPECT_TRUE(shares("sgd"));
  EXPECT_FALSE(shares("lamb"));
  EXPECT_FALSE(shares("adafactor"));
}

TEST(ParameterGroups, FreezesAndRefusesWhatMatchesNothing) {
  const nn::ParameterList parameters{parameter("a", {2, 2}), parameter("b", {2})};
  ParameterGroups({.groups = {{.pattern = "b", .frozen = true}}}).apply(parameters);
  EXPECT_TRUE(parameters[0]->trainable);
  EXPECT_FALSE(parameters[1]->trainable);
  EXPECT_THROW(ParameterGroups({.groups = {{.pattern = "c"}}}).apply(parameters), ConfigError);
  EXPECT_THROW(ParameterGroups({.groups = {{.pattern = ".", .frozen = true}}}).apply(parameters),
               ConfigError);
  EXPECT_THROW(ParameterGroups({.groups = {{.pattern = "(", .frozen = true}}}), ConfigError);
}

TEST(ParameterGroups, RefusesSettingsThatNoOptimizerHas) {
  EXPECT_THROW(ParameterGroups({.momentum = 0.9}), ConfigError);
  EXPECT_THROW(ParameterGroups({.name = "sgd", .betas = {{0.9, 0.99}}}), ConfigError);
  EXPECT_THROW(ParameterGroups({.name = "lion", .eps = 1e-8}), ConfigError);
  EXPECT_NO_THROW(ParameterGroups({.momentum = 0.9, .groups = {{.pattern = "a", .name = "sgd"}}}));
}

TEST(GroupConfig, IsATableOfTheConfiguration) {
  std::vector<GroupConfig> groups;
  ConfigSchema schema;
  schema.add("optimizer.groups", &groups, "Groups.");
  schema.set("optimizer.groups", "[{pattern = \"bias\", name = \"sgd\", weight_decay = 0}]");
  EXPECT_EQ(groups,
            (std::vector<GroupConfig>{{.pattern = "bias", .name = "sgd", .weight_decay = 0}}));
  EXPECT_THROW(schema.set("optimizer.groups", "[{name = \"sgd\"}]"), ConfigError);
  EXPECT_THROW(schema.set("optimizer.groups", "[{pattern = \"a\", rate = 1}]"), ConfigError);
  EXPECT_THROW(schema.set("optimizer.groups", "[{pattern = \"a\", name = \"adamx\"}]"),
               ConfigError);
}

}  // namespace
}  // namespace colossal::optim
