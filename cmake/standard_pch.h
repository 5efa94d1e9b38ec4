// What nearly every source of the tree includes anyway. A fatter header makes every file slower:
// GCC repeats its pending template instantiations at the end of each.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>
