#include "colossal/layout/tensor_slice.h"

#include <gtest/gtest.h>

namespace colossal {
namespace {

// Of each element of the parameter its place in the tensor; -1: none.
std::vector<int64_t> places(const TensorSlice& slice, const std::vector<int64_t>& shape,
                            Range elements) {
  std::vector<int64_t> found(static_cast<size_t>(elements.size()), -1);
  int64_t next = elements.begin;
  slice.for_each_run(shape, elements, [&](const TensorSlice::Run& run) {
    EXPECT_EQ(run.parameter_begin, next);
    for (int64_t i = 0; i < run.count; ++i) {
      found[static_cast<size_t>(run.parameter_begin + i - elements.begin)] = run.tensor_begin + i;
    }
    next += run.count;
  });
  EXPECT_EQ(next, elements.end);
  return found;
}

using Places = std::vector<int64_t>;

TEST(TensorSlice, HasRows) {
  const TensorSlice slice{.name = "t", .rows = {{4, 5}, {1, 2}}, .num_rows = 6};
  EXPECT_EQ(slice.tensor_shape({2, 3}), (Places{6, 3}));
  EXPECT_EQ(places(slice, {2, 3}, {0, 6}), (Places{12, 13, 14, 3, 4, 5}));
  EXPECT_EQ(places(slice, {2, 3}, {2, 4}), (Places{14, 3}));
}

TEST(TensorSlice, HasColumns) {
  const TensorSlice slice{.name = "t", .columns = {2, 4}, .num_columns = 5};
  EXPECT_EQ(slice.tensor_shape({3, 2}), (Places{3, 5}));
  EXPECT_EQ(places(slice, {3, 2}, {0, 6}), (Places{2, 3, 7, 8, 12, 13}));
  EXPECT_EQ(places(slice, {3, 2}, {1, 5}), (Places{3, 7, 8, 12}));
}

TEST(TensorSlice, HasColumnsOfRows) {
  const TensorSlice slice{
      .name = "t", .rows = {{3, 4}, {0, 1}}, .num_rows = 4, .columns = {0, 2}, .num_columns = 4};
  EXPECT_EQ(slice.tensor_shape({2, 2}), (Places{4, 4}));
  EXPECT_EQ(places(slice, {2, 2}, {0, 4}), (Places{12, 13, 0, 1}));
}

TEST(TensorSlice, HasOnesAtTheEnd) {
  const TensorSlice slice{.name = "t", .num_ones = 2};
  EXPECT_TRUE(slice.is_whole());
  EXPECT_EQ(slice.tensor_shape({3, 2}), (Places{3, 2, 1, 1}));
  EXPECT_EQ(places(slice, {3, 2}, {1, 5}), (Places{1, 2, 3, 4}));
}

}  // namespace
}  // namespace colossal
