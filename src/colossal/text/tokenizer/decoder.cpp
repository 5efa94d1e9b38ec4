#include "colossal/text/tokenizer/decoder.h"

#include <algorithm>

#include "colossal/text/tokenizer/byte_alphabet.h"
#include "colossal/text/tokenizer/fallback_bytes.h"

namespace colossal::text {
namespace {

std::string replace_all(const std::string& text, const std::string& literal,
                        const std::string& content) {
  std::string result;
  size_t done = 0;
  for (size_t at = text.find(literal); at != std::string::npos; at = text.find(literal, done)) {
    result.append(text, done, at - done).append(content);
    done = at + literal.size();
  }
  return result.append(text, done);
}

// Removes spaces before punctuation and contractions, with the replacements of `tokenizers` in
// their order.
std::string clean_up(std::string text) {
  for (const auto& [literal, content] :
       std::initializer_list<std::pair<const char*, const char*>>{{" .", "."},
                                                                  {" ?", "?"},
                                                                  {" !", "!"},
                                                                  {" ,", ","},
                                                                  {" ' ", "'"},
                                                                  {" n't", "n't"},
                                                                  {" 'm", "'m"},
                                                                  {" do not", " don't"},
                                                                  {" 's", "'s"},
                                                                  {" 've", "'ve"},
                                                                  {" 're", "'re"}}) {
    text = replace_all(text, literal, content);
  }
  return text;
}

std::string decode_word(const std::string& text, const DecoderDefinition::Words& words,
                        bool first) {
  std::string decoded = text;
  if (!first) {
    decoded = text.starts_with(words.continuing_prefix)
                  ? text.substr(words.continuing_prefix.size())
                  : " " + text;
  }
  return words.clean_up ? clean_up(std::move(decoded)) : decoded;
}

std::string decode_text(std::string text, const DecoderDefinition& definition, bool first) {
  if (definition.words) return decode_word(text, *definition.words, first);
  for (const auto& [literal, content, content_in_first] : definition.replacements) {
    text = replace_all(text, literal, first ? content_in_first : content);
  }
  if (definition.byte_fallback) {
    if (const auto byte = byte_of_fallback_token(text)) text.assign(1, static_cast<char>(*byte));
  }
  if (first && !definition.strip.empty() && text.starts_with(definition.strip)) {
    text.erase(0, definition.strip.size());
  }
  return text;
}

}  // namespace

Decoder::Decoder(const TokenizerDefinition& definition,
                 const std::vector<AddedToken>& added_tokens) {
  const auto add_token = [&](int32_t token, const std::string& content, bool in_alphabet) {
    if (!definition.byte_level) return add(token, content, definition.decoder);
    bytes_of_token_[token] = in_alphabet ? from_byte_alphabet(content).value_or(content) : content;
  };
  for (const auto& [text, token] : definition.vocabulary) add_token(token, text, true);
  for (const AddedToken& token : added_tokens) add_token(token.id, token.content, false);
  for (const auto& [token, bytes] : bytes_of_token_) {
    vocabulary_size_ = std::max(vocabulary_size_, token + 1);
  }
}

void Decoder::add(int32_t token, const std::string& content, const DecoderDefinition& definition) {
  std::string bytes = decode_text(content, definition, false);
  std::string first = decode_text(content, definition, true);
  if (first != bytes) bytes_of_first_[token] = std::move(first);
  bytes_of_token_[token] = std::move(bytes);
}

bool Decoder::append(int32_t token, bool first, std::string& bytes) const {
  const auto found = bytes_of_token_.find(token);
  if (found == bytes_of_token_.end()) return false;
  const auto of_first = first ? bytes_of_first_.find(token) : bytes_of_first_.end();
  bytes += of_first == bytes_of_first_.end() ? found->second : of_first->second;
  return !found->second.empty();
}

}  // namespace colossal::text
