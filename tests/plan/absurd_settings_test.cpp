// No number in a run.toml, however large, is more than a user can be told of.
#include <gmock/gmock.h>

#include "colossal/base/error.h"
#include "colossal/plan/fit_memory.h"
#include "colossal/plan/plan.h"

namespace colossal::test {
namespace {

constexpr const char* kValues[] = {"99999999999999999999",
                                   "9223372036854775807",
                                   "4611686018427387904",
                                   "1152921504606846976",
                                   "1099511627776",
                                   "4294967296",
                                   "2147483647",
                                   "16777216",
                                   "0",
                                   "-1",
                                   "-9223372036854775808"};

std::vector<std::string> all_keys() {
  RunConfig config;
  ConfigSchema schema;
  describe(schema, config);
  std::vector<std::string> keys{"model.n_embd",  "model.n_head",      "model.n_inner",
                                "model.n_layer", "model.n_positions", "model.vocab_size"};
  for (const ConfigSchema::Value& value : schema.values()) keys.push_back(value.key);
  return keys;
}

// What a plan of such a run says of it: a refusal, or "planned".
std::string answer(const std::string& key, const std::string& value, int ranks) {
  RunConfig config;
  config.model.preset = "gpt2-tiny";
  ConfigSchema schema;
  describe(schema, config);
  try {
    schema.set(key, value);
    plan::make_plan(plan::fit_memory(resolve_job(config, {.ranks = ranks, .local_ranks = ranks})));
  } catch (const ConfigError& refusal) {
    return refusal.what();
  }
  return "planned";
}

TEST(AbsurdSettings, AreRefusedByNameOrPlanned) {
  for (const std::string& key : all_keys()) {
    for (const char* value : kValues) {
      std::string said;
      ASSERT_NO_THROW(said = answer(key, value, 2)) << key << " = " << value;
      const std::string name = key.substr(key.find('.') + 1);
      if (said != "planned") {
        EXPECT_THAT(said, testing::HasSubstr(name)) << key << " = " << value;
      }
    }
  }
}

TEST(AbsurdSettings, TooLargeABatchNamesTheLargest) {
  for (const char* value : {"99999999999999999999", "9223372036854775807", "4611686018427387904"}) {
    EXPECT_EQ(answer("train.global_batch", value, 1),
              fmt::format("--train.global_batch={}: must be between 1 and 16777216", value));
  }
}

}  // namespace
}  // namespace colossal::test
