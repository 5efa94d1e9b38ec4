#include "colossal/text/tokenizer/streaming_decoder.h"

#include <span>

#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace

StreamingDecoder::StreamingDecoder(const Tokenizer& tokenizer, Begins begins, bool skips_special)
    : tokenizer_(tokenizer), first_(begins == Begins::with_text) {
  if (!skips_special) return;
  for (const SpecialToken& special : tokenizer.special_tokens()) skipped_.insert(special.token);
}

std::string StreamingDecoder::push(int32_t token) {
  if (skipped_.contains(token)) return {};
  const std::span tokens(&token, 1);
  const std::string within = tokenizer_.decode_continuation(tokens);
  held_ += first_ ? tokenizer_.decode(tokens) : within;
  first_ = first_ && within.empty();
  std::string text;
  size_t position = 0;
  while (position < held_.size()) {
    const Utf8Prefix prefix = read_utf8_prefix(std::string_view(held_).substr(position));
    if (prefix.kind == Utf8Prefix::Kind::incomplete) break;
    if (prefix.kind == Utf8Prefix::Kind::character) {
      text.append(held_, position, prefix.length);
    } else {
      text += kReplacementCharacter;
    }
    position += prefix.length;
  }
  held_.erase(0, position);
  return text;
}

std::string StreamingDecoder::flush() {
  if (held_.empty()) return {};
  held_.clear();
  return std::string(kReplacementCharacter);
}

}  // namespace colossal::text
