#include "colossal/text/tokenizer/added_tokens.h"

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

ByteTrie make_trie(const std::vector<AddedToken>& tokens) {
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (const AddedToken& token : tokens) {
    keys.emplace_back(token.content, static_cast<int32_t>(keys.size()));
  }
  return ByteTrie(std::move(keys));
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), trie_(make_trie(tokens_)) {
  for (const AddedToken& token : tokens_) {
    begins_token_[static_cast<uint8_t>(token.content[0])] = true;
  }
}

const AddedToken* AddedTokenFinder::longest_at(std::string_view text, size_t position,
                                               size_t most) const {
  const AddedToken* longest = nullptr;
  trie_.for_each_prefix(text.substr(position), [&](size_t length, int32_t token) {
    if (!tokens_[token].special || length <= most) longest = &tokens_[token];
  });
  return longest;
}

void AddedTokenFinder::split(std::string_view text, std::span<const size_t> breaks,
                             const std::function<void(std::string_view)>& on_text,
                             const std::function<void(int32_t)>& on_token) const {
  size_t done = 0;  // all text before it was passed to a callback
  size_t next = 0;  // index of the first break behind `position`
  for (size_t position = 0; !tokens_.empty() && position < text.size();) {
    const bool may_begin = begins_token_[static_cast<uint8_t>(text[position])];
    while (next < breaks.size() && breaks[next] <= position) ++next;
    const size_t most = next < breaks.size() ? breaks[next] - position : text.size();
    const AddedToken* token = may_begin ? longest_at(text, position, most) : nullptr;
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
