#include "colossal/text/tokenizer/byte_trie.h"

namespace colossal::text {

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, int32_t>> keys) : nodes_(1), bytes_(1) {
  std::ranges::stable_sort(keys, {}, &std::pair<std::string_view, int32_t>::first);
  // The keys [begin, end) below a node, which have the same first `depth` bytes.
  struct Below {
    size_t begin, end, depth;
  };
  std::vector<Below> below = {{0, keys.size(), 0}};
  for (uint32_t node = 0; node < below.size(); ++node) {
    auto [begin, end, depth] = below[node];
    for (; begin < end && keys[begin].first.size() == depth; ++begin) {
      if (depth > 0) nodes_[node].value = keys[begin].second;
    }
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const char byte = keys[begin].first[depth];
      const size_t first = begin;
      while (begin < end && keys[begin].first[depth] == byte) ++begin;
      below.push_back({first, begin, depth + 1});
      nodes_.emplace_back();
      bytes_.push_back(static_cast<uint8_t>(byte));
      ++nodes_[node].num_children;
    }
  }
}

}  // namespace colossal::text
