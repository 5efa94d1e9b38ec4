#include "colossal/nn/parameter.h"

#include <gtest/gtest.h>

namespace colossal::nn {
namespace {

// Each element here with its index in the global tensor, as runs give them.
std::vector<int64_t> indices(const Parameter& parameter, Range local) {
  std::vector<int64_t> found;
  int64_t next = local.begin;
  parameter.for_each_run(local, [&](const Parameter::Run& run) {
    EXPECT_EQ(run.local_begin, next);
    EXPECT_GT(run.count, 0);
    for (int64_t i = 0; i < run.count; ++i) found.push_back(run.begin + i);
    next += run.count;
  });
  EXPECT_EQ(next, std::max(local.begin, local.end));
  return found;
}

// The same by going through every element of the global tensor.
std::vector<int64_t> expected(const Parameter& parameter) {
  std::vector<int64_t> found;
  for (int64_t element = 0; element < parameter.numel(); ++element) {
    bool here = true;
    int64_t rest = element;
    for (size_t dim = parameter.shape.size(); dim-- > 0;) {
      const int64_t index = rest % parameter.shape[dim];
      rest /= parameter.shape[dim];
      const auto& runs = parameter.placement.held[dim];
      here &= std::any_of(runs.begin(), runs.end(),
                          [&](const Range& run) { return index >= run.begin && index < run.end; });
    }
    if (here) found.push_back(element);
  }
  return found;
}

TEST(ParameterRuns, AreThoseOfTheElementsHere) {
  const std::vector<std::vector<std::vector<Range>>> placements{
      {{{0, 5}}, {{0, 4}}, {{0, 3}}},          // whole
      {{{1, 3}}, {{0, 4}}, {{0, 3}}},          // rows
      {{{0, 5}}, {{0, 1}, {2, 4}}, {{0, 3}}},  // of the middle, in two runs
      {{{0, 5}}, {{0, 4}}, {{1, 2}}},          // columns
      {{{0, 2}, {4, 5}}, {{1, 3}}, {{0, 1}, {2, 3}}},
      {{}, {{0, 4}}, {{0, 3}}}};  // nothing
  for (const auto& held : placements) {
    Parameter parameter{.shape = {5, 4, 3}, .placement = {.held = held}};
    const std::vector<int64_t> all = expected(parameter);
    EXPECT_EQ(parameter.local_numel(), static_cast<int64_t>(all.size()));
    EXPECT_EQ(indices(parameter, {0, parameter.local_numel()}), all);
    for (int64_t begin = 0; begin < parameter.local_numel(); ++begin) {
      const Range some{begin, std::min(begin + 7, parameter.local_numel())};
      EXPECT_EQ(indices(parameter, some),
                std::vector<int64_t>(all.begin() + some.begin, all.begin() + some.end));
    }
  }
}

TEST(ParameterRuns, WithoutPlacementAreOne) {
  const Parameter parameter{.shape = {3, 4}};
  EXPECT_EQ(parameter.local_shape(), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(indices(parameter, {2, 9}), (std::vector<int64_t>{2, 3, 4, 5, 6, 7, 8}));
}

}  // namespace
}  // namespace colossal::nn
