// A set of byte strings, each with an integer value, that finds all strings with which a text
// begins. Tokenizers use the set to find the tokens that match at a position of a text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace colossal::text {

// An immutable, thread-safe trie over bytes. Nodes are stored in breadth-first order: the children
// of a node are adjacent, sorted by byte.
class ByteTrie {
 public:
  static constexpr int32_t kAbsent = -1;  // result of find() for a string that is not in the set

  // keys: pairs of a string and its value, which must be >= 0. The strings need not outlive the
  // constructor. An empty string is never found. If two strings are equal, the later value is kept.
  explicit ByteTrie(std::vector<std::pair<std::string_view, int32_t>> keys);

  // Calls on_key(length, value) for each string of the set that is a prefix of `text`, shortest
  // first. length: the string's length in bytes.
  template <typename OnKey>  // void(size_t length, int32_t value)
  void for_each_prefix(std::string_view text, const OnKey& on_key) const {
    uint32_t node = kRoot;
    for (size_t length = 1; length <= text.size(); ++length) {
      node = child(node, static_cast<uint8_t>(text[length - 1]));
      if (node == kRoot) return;
      if (nodes_[node].value != kAbsent) on_key(length, nodes_[node].value);
    }
  }

  // Returns the value of the string that equals `text`; kAbsent if the set does not contain `text`.
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
    uint32_t first_child = 0;  // index in nodes_
    uint32_t num_children = 0;
    int32_t value = kAbsent;  // of the string that ends at this node; kAbsent: no string does
  };

  // Returns the index of the node's child for this byte; kRoot, which is no node's child, if there
  // is no such child.
  uint32_t child(uint32_t node, uint8_t byte) const {
    const auto begin = bytes_.begin() + nodes_[node].first_child;
    const auto end = begin + nodes_[node].num_children;
    const auto found = std::lower_bound(begin, end, byte);
    return found == end || *found != byte ? kRoot : static_cast<uint32_t>(found - bytes_.begin());
  }

  std::vector<Node> nodes_;
  std::vector<uint8_t> bytes_;  // by index of a node: the byte on the edge from its parent
};

}  // namespace colossal::text
