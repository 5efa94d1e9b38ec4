// Before the first step, a run proves that its shards make a whole checkpoint. A dry run does so
// for every family at every layout; shards that do not fit together are found, and told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "colossal/base/error.h"
#include "colossal/training/saving_checks.h"
#include "tests/runs/configurations.h"
#include "tests/support/run_ranks.h"
#include "tests/support/small_families.h"
#include "tests/support/temporary_directory.h"

namespace colossal::test {
namespace {

using testing::HasSubstr;

// The dry proof of a family at all layouts of which the number modulo `modulus` is `rest`. Returns
// how many there were; layouts that the model refuses count, too.
int prove(const std::string& family, size_t number, size_t modulus, size_t rest) {
  const TemporaryDirectory folder;
  int count = 0;
  for (size_t i = rest; i < layouts().size(); i += modulus) {
    for (const int64_t table_rows : {0, 10}) {
      RunConfig config = small_run(family, folder.path().string());
      layouts()[i].change(config);
      // All types and most optimizers; a dry run does not know the owners of muon's and galore's
      // matrices on other ranks, so that saving_error() leaves these to the real proof.
      config.precision.compute = types()[(i + number) % 3];
      config.memory.table_rows = table_rows;
      optimizers()[(i + number) % 9].change(config);
      try {
        const Job job = job_for(config, layouts()[i].ranks);
        EXPECT_EQ(saving_error(job), "") << family << ", " << layouts()[i].name << ", "
                                         << config.precision.compute << ", " << table_rows;
      } catch (const ConfigError&) {  // this family has no such layout
      }
      ++count;
    }
  }
  return count;
}

TEST(SavingProof, HoldsForEveryFamilySomewhere) {
  const std::vector<std::string> families = family_names();
  for (size_t i = 0; i < families.size(); ++i) prove(families[i], i, layouts().size() / 2, i % 9);
}

TEST(SlowSavingProof, HoldsForEveryFamilyAtEveryLayout) {
  const std::vector<std::string> families = family_names();
  int count = 0;
  for (size_t i = 0; i < families.size(); ++i) {
    for (size_t turn = 0; turn < 3; ++turn) count += prove(families[i], i + turn, 1, 0);
  }
  fmt::print("{} dry proofs\n", count);
}

// A parameter [8, 6] of which two ranks hold columns.
std::string error_of(const Range& first, const Range& second) {
  std::string error;
  run_ranks(2, [&](comm::World& world) {
    const ParallelContext context(world, Strategy{.tp = 2});
    const Range columns = world.rank() == 0 ? first : second;
    nn::ParameterList parameters{nn::ParameterHandle(std::make_shared<nn::Parameter>(nn::Parameter{
        .name = "up", .shape = {8, 6}, .placement = {.held = {{{0, 8}}, {columns}}}}))};
    const memory::ChunkEngine chunks(parameters, context, {.working = at::kFloat});
    const checkpoint::SliceOf slice_of = [](const std::string& name) { return TensorSlice{name}; };
    const checkpoint::FilePlan plan(chunks, slice_of, {});
    checkpoint::SaveProof proof(plan);
    proof.add(chunks, slice_of, {});
    proof.add_other_ranks(context.world_group());
    if (world.rank() == 1) error = proof.error();
  });
  return error;
}

TEST(SavingProof, FindsShardsThatDoNotFitTogether) {
  EXPECT_EQ(error_of({0, 3}, {3, 6}), "");
  EXPECT_EQ(error_of({0, 2}, {2, 6}), "");
  EXPECT_THAT(error_of({0, 3}, {4, 6}), HasSubstr("of the 192 bytes of the tensor \"up\" the ranks "
                                                  "would write 160"));
  EXPECT_THAT(error_of({0, 4}, {3, 6}), HasSubstr("would write 224"));
  EXPECT_THAT(error_of({0, 3}, {0, 3}), HasSubstr("some bytes twice, and others not at all"));
  EXPECT_THAT(error_of({0, 2}, {1, 5}), HasSubstr("some bytes twice, and others not at all"));
}

// The error of a run whose ranks hold a wrong part of a table, and what would work instead.
TEST(SavingProof, ARefusalNamesTheNearestThatCanBeSaved) {
  const TemporaryDirectory folder;
  RunConfig config = small_run("gpt2", folder.path().string());
  config.parallel.tp = 2;
  const Job job = job_for(config, 2);
  run_ranks(2, [&](comm::World& world) {
    const ParallelContext context(world, job.strategy);
    const nn::Placement placement{.held = {{{0, 50}}, {{0, 36}}}};  // both the same rows
    nn::ParameterList parameters{nn::ParameterHandle(std::make_shared<nn::Parameter>(nn::Parameter{
        .name = "token_embedding.weight", .shape = {97, 36}, .placement = placement}))};
    const memory::ChunkEngine chunks(parameters, context, {.working = at::kFloat});
    try {
      require_savable(job, chunks, context);
      ADD_FAILURE() << "accepted";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("cannot be saved: of the 13968 bytes of the tensor "
                                          "\"transformer.wte.weight\" the ranks would write 14400; "
                                          "nearest: parallel.tp = 1"));
    }
  });
}

}  // namespace
}  // namespace colossal::test
