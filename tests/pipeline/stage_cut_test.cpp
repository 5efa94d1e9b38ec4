#include "colossal/parallel/pipeline/stage_cut.h"

#include <gmock/gmock.h>

#include <limits>
#include <numeric>
#include <random>

#include "colossal/base/error.h"

namespace colossal::parallel::pipeline {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<double> stage_costs(const std::vector<int>& cut, const std::vector<double>& blocks,
                                double embedding, double head) {
  std::vector<double> costs;
  size_t block = 0;
  for (const int count : cut) {
    costs.push_back(0);
    for (int i = 0; i < count; ++i) costs.back() += blocks[block++];
  }
  costs.front() += embedding;
  costs.back() += head;
  return costs;
}

// All cuts of `blocks` into `stages` parts that are not empty.
void each_cut(int blocks, int stages, std::vector<int>& cut,
              const std::function<void(const std::vector<int>&)>& visit) {
  if (stages == 1) {
    cut.push_back(blocks);
    visit(cut);
    cut.pop_back();
    return;
  }
  for (int first = 1; first <= blocks - stages + 1; ++first) {
    cut.push_back(first);
    each_cut(blocks - first, stages - 1, cut, visit);
    cut.pop_back();
  }
}

TEST(StageCut, CountsEmbeddingAndHead) {
  const std::vector<double> blocks(12, 1.0);
  EXPECT_THAT(cut_stages(blocks, 0, 0, 4), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(cut_stages(blocks, 0, 2, 4), ElementsAre(3, 3, 4, 2));
  EXPECT_THAT(cut_stages(blocks, 1, 3, 4), ElementsAre(3, 4, 4, 1));
  EXPECT_THAT(cut_stages(blocks, 5, 5, 1), ElementsAre(12));
  // A head that takes more than all the rest leaves its stage one block.
  EXPECT_THAT(cut_stages(blocks, 0, 100, 3), ElementsAre(5, 6, 1));
}

TEST(StageCut, AnyNumberOfBlocksFromOneAStage) {
  const std::vector<double> blocks(7, 2.0);
  EXPECT_THAT(cut_stages(blocks, 0, 0, 7), ElementsAre(1, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(cut_stages(blocks, 0, 0, 3), testing::UnorderedElementsAre(2, 2, 3));
  EXPECT_THAT(cut_stages(blocks, 0, 0, 1), ElementsAre(7));
}

// Against all cuts: the smallest largest cost, and of those the most even.
TEST(StageCut, IsTheBestOfAllCuts) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> cost(0, 9), number(1, 9);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<double> blocks(number(random));
    for (double& one : blocks) one = cost(random);
    const int stages = 1 + static_cast<int>(random() % blocks.size());
    const double embedding = cost(random), head = 2 * cost(random);
    const auto measure = [&](const std::vector<int>& cut) {
      const std::vector<double> costs = stage_costs(cut, blocks, embedding, head);
      return std::pair(std::ranges::max(costs),
                       std::inner_product(costs.begin(), costs.end(), costs.begin(), 0.0));
    };
    auto best = measure(cut_stages(blocks, embedding, head, stages));
    std::vector<int> cut;
    each_cut(static_cast<int>(blocks.size()), stages, cut, [&](const std::vector<int>& other) {
      EXPECT_LE(best, measure(other)) << "trial " << trial;
    });
  }
}

std::string error_of(const std::vector<int>& list, int blocks, int stages) {
  try {
    check_stage_cut(list, blocks, stages);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(StageCut, ChecksAListOfTheUser) {
  EXPECT_EQ(error_of({3, 4, 5}, 12, 3), "no error");
  EXPECT_THAT(error_of({3, 4}, 12, 3),
              AllOf(HasSubstr("pp_layers = [3, 4]"), HasSubstr("2 entries for 3 stages"),
                    HasSubstr("for example [4, 4, 4]")));
  EXPECT_THAT(error_of({3, 4, 4}, 12, 3), HasSubstr("sum to 11 blocks, the model has 12"));
  EXPECT_THAT(error_of({12, 0, 0}, 12, 3), HasSubstr("stage 1 has 0 blocks"));
  EXPECT_THAT(error_of({7, -1, 6}, 12, 3), HasSubstr("stage 1 has -1 blocks"));
  EXPECT_THAT(error_of({1, 1, 1}, 2, 3), HasSubstr("3 stages"));
}

TEST(StageCut, RefusesMoreStagesThanBlocks) {
  try {
    cut_stages(std::vector<double>(4, 1.0), 0, 0, 5);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("5 stages"), HasSubstr("4 blocks"),
                                    HasSubstr("use at most 4 stages")));
  }
}

}  // namespace
}  // namespace colossal::parallel::pipeline
