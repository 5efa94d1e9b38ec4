#include "colossal/data/interleaving.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "colossal/base/error.h"
#include "colossal/base/random.h"

namespace colossal::data {
namespace {

constexpr uint64_t kWhole = uint64_t{1} << 32;

// Returns the share of the left child, in units of 1 / kWhole. Both children get at least one unit.
uint64_t share_of_left(double left, double right) {
  const double share = std::round(left / (left + right) * static_cast<double>(kWhole));
  return std::clamp<uint64_t>(static_cast<uint64_t>(share), 1, kWhole - 1);
}

}  // namespace

Interleaving::Interleaving(std::span<const double> weights, uint64_t seed) {
  COLOSSAL_CHECK(!weights.empty(), "{} sources", weights.size());
  root_ = add_nodes(weights, 0, seed);
}

uint32_t Interleaving::add_nodes(std::span<const double> weights, int64_t first_source,
                                 uint64_t seed) {
  const auto number = static_cast<uint32_t>(nodes_.size());
  nodes_.emplace_back();
  Node node;
  if (weights.size() == 1) {
    node.source = first_source;
  } else {
    const size_t half = weights.size() / 2;
    const auto sum = [](std::span<const double> some) {
      return std::accumulate(some.begin(), some.end(), 0.0);
    };
    node.share = share_of_left(sum(weights.first(half)), sum(weights.subspan(half)));
    node.phase = philox(random_key(seed, number, "mixture"), {}).word[0];
    node.left = add_nodes(weights.first(half), first_source, seed);
    node.right = add_nodes(weights.subspan(half), first_source + static_cast<int64_t>(half), seed);
  }
  nodes_[number] = node;
  return number;
}

int64_t Interleaving::Node::count_left(int64_t positions) const {
  const auto product = static_cast<unsigned __int128>(positions) * share + phase;
  return static_cast<int64_t>(product / kWhole);
}

Interleaving::Place Interleaving::at(int64_t position) const {
  const Node* node = &nodes_[root_];
  while (node->source < 0) {
    const int64_t before = node->count_left(position);
    const bool goes_left = node->count_left(position + 1) > before;
    position = goes_left ? before : position - before;
    node = &nodes_[goes_left ? node->left : node->right];
  }
  return {node->source, position};
}

}  // namespace colossal::data
