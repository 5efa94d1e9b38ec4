// Finds the strings of a set that are prefixes of a text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace colossal::text {

// An immutable trie over bytes. Nodes are stored in breadth-first order: the children of a node are
// adjacent, sorted by byte.
class ByteTrie {
 public:
  static constexpr int32_t kAbsent = -1;

  // keys: strings with their values (>= 0). The strings need not outlive the constructor. An empty
  // string is never found. If strings are equal, the last value wins.
  explicit ByteTrie(std::vector<std::pair<std::string_view, int32_t>> keys);

  // Calls on_key for each string that is a prefix of `text`, shortest first.
  template <typename OnKey>  // void(size_t length, int32_t value)
  void for_each_prefix(std::string_view text, const OnKey& on_key) const {
    uint32_t node = kRoot;
    for (size_t length = 1; length <= text.size(); ++length) {
      node = child(node, static_cast<uint8_t>(text[length - 1]));
      if (node == kRoot) return;
      if (nodes_[node].value != kAbsent) on_key(length, nodes_[node].value);
    }
  }

  // Returns the value of the string equal to `text`; kAbsent if there is none.
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

  // Returns kRoot, which is no node's child, if the node has no child for this byte.
  uint32_t child(uint32_t node, uint8_t byte) const {
    const auto begin = bytes_.begin() + nodes_[node].first_child;
    const auto end = begin + nodes_[node].num_children;
    const auto found = std::lower_bound(begin, end, byte);
    return found == end || *found != byte ? kRoot : static_cast<uint32_t>(found - bytes_.begin());
  }

  std::vector<Node> nodes_;
  std::vector<uint8_t> bytes_;  // per node: the byte on the edge from its parent
};

}  // namespace colossal::text
