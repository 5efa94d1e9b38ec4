// Finds which of many strings a text begins with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace colossal::text {

// A trie over bytes, fixed once made. Nodes lie in breadth-first order, so that the children of a
// node are neighbours, sorted by the byte that leads to them.
class ByteTrie {
 public:
  static constexpr int32_t kAbsent = -1;

  // Strings and their values, which are not negative. The strings need not outlive the
  // constructor. An empty string is found nowhere; of equal strings the last one's value counts.
  explicit ByteTrie(std::vector<std::pair<std::string_view, int32_t>> keys);

  // Calls with the length and value of each string that `text` begins with, the shortest first.
  template <typename OnKey>  // void(size_t length, int32_t value)
  void for_each_prefix(std::string_view text, const OnKey& on_key) const {
    uint32_t node = kRoot;
    for (size_t length = 1; length <= text.size(); ++length) {
      node = child(node, static_cast<uint8_t>(text[length - 1]));
      if (node == kRoot) return;
      if (nodes_[node].value != kAbsent) on_key(length, nodes_[node].value);
    }
  }

  // The value of the whole text, kAbsent where it is none of the strings.
  int32_t find(std::string_view text) const {
    uint32_t node = kRoot;
    for (char byte : text) {
      node = child(node, static_cast<uint8_t>(byte));
      if (node == kRoot) return kAbsent;
    }
    return nodes_[node].value;
  }

 private:
  static constexpr uint32_t kRoot = 0;

  struct Node {
    uint32_t first_child = 0;
    uint32_t num_children = 0;
    int32_t value = kAbsent;
  };

  // kRoot, which is nobody's child, where there is none.
  uint32_t child(uint32_t node, uint8_t byte) const {
    const auto begin = bytes_.begin() + nodes_[node].first_child;
    const auto end = begin + nodes_[node].num_children;
    const auto found = std::lower_bound(begin, end, byte);
    return found == end || *found != byte ? kRoot : static_cast<uint32_t>(found - bytes_.begin());
  }

  std::vector<Node> nodes_;
  std::vector<uint8_t> bytes_;  // that lead to each node
};

}  // namespace colossal::text
