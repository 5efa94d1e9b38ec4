#include "colossal/text/added_tokens.h"

#include <algorithm>

#include "colossal/text/unicode.h"
#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

bool is_single_word(std::string_view text, size_t begin, size_t end) {
  size_t before = begin, after = end;
  const bool joined_left = begin > 0 && is_word_character(previous_code_point(text, before));
  const bool joined_right = end < text.size() && is_word_character(next_code_point(text, after));
  return !joined_left && !joined_right;
}

size_t skip_white_space_left(std::string_view text, size_t position) {
  for (size_t next = position; position > 0; position = next) {
    if (!is_white_space(previous_code_point(text, next))) break;
  }
  return position;
}

size_t skip_white_space_right(std::string_view text, size_t position) {
  for (size_t next = position; position < text.size(); position = next) {
    if (!is_white_space(next_code_point(text, next))) break;
  }
  return position;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), nodes_(1) {
  for (size_t i = 0; i < tokens_.size(); ++i) insert(tokens_[i].content, static_cast<int32_t>(i));
}

void AddedTokenFinder::insert(const std::string& content, int32_t token) {
  begins_token_[static_cast<uint8_t>(content[0])] = true;
  uint32_t node = 0;
  for (char c : content) {
    const auto byte = static_cast<uint8_t>(c);
    auto& edges = nodes_[node].edges;
    const auto edge =
        std::ranges::lower_bound(edges, byte, {}, &std::pair<uint8_t, uint32_t>::first);
    if (edge != edges.end() && edge->first == byte) {
      node = edge->second;
      continue;
    }
    node = static_cast<uint32_t>(nodes_.size());
    edges.insert(edge, {byte, node});
    nodes_.emplace_back();
  }
  nodes_[node].token = token;
}

const AddedToken* AddedTokenFinder::longest_at(std::string_view text, size_t position) const {
  const AddedToken* longest = nullptr;
  uint32_t node = 0;
  for (; position < text.size(); ++position) {
    const auto byte = static_cast<uint8_t>(text[position]);
    const auto& edges = nodes_[node].edges;
    const auto edge =
        std::ranges::lower_bound(edges, byte, {}, &std::pair<uint8_t, uint32_t>::first);
    if (edge == edges.end() || edge->first != byte) break;
    node = edge->second;
    if (nodes_[node].token >= 0) longest = &tokens_[nodes_[node].token];
  }
  return longest;
}

void AddedTokenFinder::split(std::string_view text,
                             const std::function<void(std::string_view)>& on_text,
                             const std::function<void(int32_t)>& on_token) const {
  size_t done = 0;  // text before it is given out
  for (size_t position = 0; !tokens_.empty() && position < text.size();) {
    const bool may_begin = begins_token_[static_cast<uint8_t>(text[position])];
    const AddedToken* token = may_begin ? longest_at(text, position) : nullptr;
    if (token == nullptr) {
      ++position;
      continue;
    }
    size_t begin = position;
    size_t end = position + token->content.size();
    position = end;
    if (token->single_word && !is_single_word(text, begin, end)) continue;
    if (token->strip_left) begin = skip_white_space_left(text, begin);
    if (token->strip_right) end = skip_white_space_right(text, end);
    if (done < begin) on_text(text.substr(done, begin - done));
    on_token(token->id);
    done = end;
  }
  if (done < text.size()) on_text(text.substr(done));
}

}  // namespace colossal::text
