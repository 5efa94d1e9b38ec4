#include "colossal/layout/initial_values.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "colossal/layout/layout.h"
#include "tests/layout/all_layouts.h"
#include "tests/layout/piece_of.h"

namespace colossal {
namespace {

using test::all_layouts;
using test::grid_of;
using test::piece_of;

TEST(InitialValues, PiecesOfAnyLayoutAreSlicesOfTheSerialTensor) {
  const std::vector<Layout::Dim> dims{{{{12, 3}, {7}}}, {{{5}}}, {{{6, 4}}}};
  for (const nn::Initializer& initializer :
       {nn::Initializer::normal(0.02), nn::Initializer::ones()}) {
    const auto values_of = [&](const nn::Placement& placement) {
      const nn::Parameter parameter{.name = "blocks.0.weight",
                                    .shape = {19, 5, 6},
                                    .initializer = initializer,
                                    .placement = placement};
      const at::Tensor values = at::empty({parameter.local_numel()}, at::kFloat);
      // In two pieces, as the parts of an optimizer's ranks may be.
      const int64_t half = values.numel() / 2;
      fill_initial_values(values.narrow(0, 0, half), parameter, 0, 7);
      fill_initial_values(values.narrow(0, half, values.numel() - half), parameter, half, 7);
      return values.view(parameter.local_shape());
    };
    const at::Tensor serial = values_of({});
    for (const std::vector<int>& sizes : std::vector<std::vector<int>>{{7}, {3, 2}}) {
      const RankGrid grid = grid_of(sizes);
      for (const Layout& layout : all_layouts(grid, dims, {0, 1, 2})) {
        for (int rank = 0; rank < grid.num_ranks(); ++rank) {
          ASSERT_TRUE(values_of({.held = layout.held(rank)}).equal(piece_of(serial, layout, rank)))
              << describe(layout) << ", rank " << rank;
        }
      }
    }
  }
}

}  // namespace
}  // namespace colossal
