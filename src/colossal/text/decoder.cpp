#include "colossal/text/decoder.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "colossal/text/byte_alphabet.h"

namespace colossal::text {
namespace {

// The byte of "<0x0A>".
std::optional<char> byte_of_fallback_token(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(byte);
}

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

std::string decode_text(std::string text, const DecoderDefinition& definition, bool first) {
  for (const auto& [literal, content, content_in_first] : definition.replacements) {
    text = replace_all(text, literal, first ? content_in_first : content);
  }
  if (definition.byte_fallback) {
    if (const auto byte = byte_of_fallback_token(text)) text.assign(1, *byte);
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
    if (!definition.model.byte_level) return add(token, content, definition.decoder);
    bytes_of_token_[token] = in_alphabet ? from_byte_alphabet(content).value_or(content) : content;
  };
  for (const auto& [text, token] : definition.model.vocabulary) add_token(token, text, true);
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
