// Layouts as cases of parametrised tests.
#pragma once

#include <string>
#include <vector>

#include "colossal/mesh/strategy.h"

namespace colossal::test {

// "2halfd8x2_ulysses2_dp3_zero1_groups2_blocks": what it has of more than one rank, and its stage.
std::string layout_name(const Strategy& layout);

// For pairwise(): those of the layout, then `others`, those that a case has besides.
std::vector<double> layout_settings(const Strategy& layout, const std::vector<double>& others);

}  // namespace colossal::test
