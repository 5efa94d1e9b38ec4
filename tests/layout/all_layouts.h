// Every layout of a tensor over a grid, listed without the help of the code under test.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "colossal/layout/layout.h"

namespace colossal::test {

// A grid of axes a, b, c of these sizes.
inline RankGrid grid_of(const std::vector<int>& sizes) {
  std::vector<GridAxis> axes;
  for (int size : sizes)
    axes.push_back({std::string(1, static_cast<char>('a' + axes.size())), size});
  return RankGrid(axes);
}

// Whole dims, one segment each.
inline std::vector<Layout::Dim> dims_of(const std::vector<int64_t>& shape) {
  std::vector<Layout::Dim> dims;
  for (int64_t size : shape) dims.push_back({{{size}}});
  return dims;
}

// Along each axis replicated, partial, or sharded on a dim, along `zigzag_axes` also in zigzag;
// axes of one dim in every order. `dims` without shards.
inline std::vector<Layout> all_layouts(const RankGrid& grid, const std::vector<Layout::Dim>& dims,
                                       const AxisSet& zigzag_axes = {}) {
  struct Choice {
    std::vector<Layout::Dim> dims;
    AxisSet partial;
  };
  std::vector<Choice> choices{{dims, {}}};
  for (int axis = 0; axis < grid.num_axes(); ++axis) {
    std::vector<Choice> more = choices;
    for (const Choice& choice : choices) {
      more.push_back(choice);
      more.back().partial.push_back(axis);
      for (size_t dim = 0; dim < dims.size(); ++dim) {
        for (size_t place = 0; place <= choice.dims[dim].shards.size(); ++place) {
          for (Cut cut : {Cut::contiguous, Cut::zigzag}) {
            if (cut == Cut::zigzag &&
                !std::binary_search(zigzag_axes.begin(), zigzag_axes.end(), axis))
              continue;
            more.push_back(choice);
            auto& shards = more.back().dims[dim].shards;
            shards.insert(shards.begin() + static_cast<std::ptrdiff_t>(place), {axis, cut});
          }
        }
      }
    }
    choices = std::move(more);
  }
  std::vector<Layout> layouts;
  for (const Choice& choice : choices) layouts.emplace_back(grid, choice.dims, choice.partial);
  return layouts;
}

}  // namespace colossal::test
