// Reads answers in GPT-OSS's form, harmony, while they are streamed.
// https://github.com/openai/harmony
#pragma once

#include <string>
#include <string_view>

#include "colossal/text/answer/parsed_text.h"

namespace colossal::text {

// An answer is a sequence of messages: a header with a channel and perhaps a recipient,
// <|message|>, a text, and an end marker. The channel `analysis` is reasoning; a message to
// functions.NAME is a call of this tool; other texts are content. The prompt ends with
// <|start|>assistant, so that the answer begins in a header; an answer without a header is content.
// Not thread-safe.
class HarmonyParser {
 public:
  // with_calls: whether messages to functions are calls; otherwise they are content.
  explicit HarmonyParser(bool with_calls) : with_calls_(with_calls) {}

  // Adds the next piece of the answer. Returns what is certain now; calls once they are whole. A
  // message to a function that is no JSON object is content, with its header.
  ParsedText push(std::string_view text);
  // Call once at the end of the answer: the token that ended it, such as <|call|>, ends its last
  // message, too. Returns the text that push() held back.
  ParsedText finish();

  size_t num_calls() const { return num_calls_; }
  // Returns whether no content has begun: the answer is in a header or in reasoning.
  bool is_before_content() const { return place_ != Place::content; }
  bool is_in_reasoning() const { return place_ == Place::reasoning; }

 private:
  enum class Place { begin, header, reasoning, content, call };

  bool read(ParsedText& out);
  bool read_header();
  // Ends the header and begins its message.
  void begin_message();
  void end_message(ParsedText& out);
  void add(std::string_view text, ParsedText& out);

  bool with_calls_;
  Place place_ = Place::begin;
  std::string held_;     // text that was pushed and that is not read
  std::string header_;   // of the current message
  std::string tool_;     // name of the tool that the message calls
  std::string message_;  // the arguments so far
  size_t num_calls_ = 0;
};

}  // namespace colossal::text
