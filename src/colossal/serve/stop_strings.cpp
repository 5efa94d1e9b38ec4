#include "colossal/serve/stop_strings.h"

#include <algorithm>
#include <utility>

#include "colossal/text/tokenizer/streaming_decoder.h"

namespace colossal::serve {
namespace {

// Returns the length of the longest suffix of the text that is a proper prefix of the string.
size_t begun(std::string_view text, std::string_view string) {
  size_t size = std::min(text.size(), string.size() - 1);
  while (!text.ends_with(string.substr(0, size))) --size;
  return size;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> strings, bool include)
    : strings_(std::move(strings)), include_(include) {
  std::erase(strings_, "");
}

std::string StopStrings::push(std::string_view text) {
  if (found_) return "";
  held_ += text;
  size_t first = std::string::npos, length = 0, held = 0;
  for (const std::string& string : strings_) {
    const size_t found = held_.find(string);
    if (found < first) first = found, length = string.size(), string_ = string;
    held = std::max(held, begun(held_, string));
  }
  found_ = first != std::string::npos;
  const size_t given = found_ ? first + (include_ ? length : 0) : held_.size() - held;
  std::string before = held_.substr(0, given);
  held_.erase(0, given);
  return before;
}

std::string StopStrings::flush() {
  return found_ ? "" : std::exchange(held_, "");
}

std::function<bool(std::span<const int32_t>)> ends_beam_at(std::vector<std::string> strings,
                                                           const text::Tokenizer& tokenizer) {
  if (strings.empty()) return nullptr;
  return [strings = std::move(strings), &tokenizer](std::span<const int32_t> tokens) {
    text::StreamingDecoder decoder(tokenizer, text::StreamingDecoder::Begins::after_prompt);
    StopStrings stop(strings);
    for (const int32_t token : tokens) stop.push(decoder.push(token));
    return stop.found();
  };
}

}  // namespace colossal::serve
