#include "colossal/nn/adapter_weights.h"

#include <algorithm>

namespace colossal::nn {

std::vector<AdaptedRows> rows_within(const std::vector<AdaptedRows>& rows, Range tokens) {
  std::vector<AdaptedRows> within;
  for (const auto& [adapter, begin, count] : rows) {
    const int64_t first = std::max(begin, tokens.begin), end = std::min(begin + count, tokens.end);
    if (first < end) within.push_back({adapter, first - tokens.begin, end - first});
  }
  return within;
}

}  // namespace colossal::nn
