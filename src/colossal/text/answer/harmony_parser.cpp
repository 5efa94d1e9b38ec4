#include "colossal/text/answer/harmony_parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "colossal/text/answer/call_sections.h"
#include "colossal/text/answer/json_call_reader.h"

namespace colossal::text {
namespace {

constexpr std::string_view kStart = "<|start|>", kChannel = "<|channel|>", kMessage = "<|message|>";
constexpr std::string_view kFunctions = "functions.";
// What ends a message. A model may begin a message without an end of the one before.
constexpr std::array<std::string_view, 5> kEnds{"<|end|>", "<|call|>", "<|return|>", kStart,
                                                kChannel};

// Returns the word after `before` in a header; "" if there is none.
std::string word_after(std::string_view header, std::string_view before) {
  const size_t found = header.find(before);
  if (found == header.npos) return "";
  const std::string_view rest = header.substr(found + before.size());
  return std::string(rest.substr(0, rest.find_first_of(" \n\t<")));
}

}  // namespace

bool HarmonyParser::read_header() {
  const size_t end = held_.find(kMessage);
  if (end == held_.npos) return false;
  header_ += held_.substr(0, end) + std::string(kMessage);
  held_.erase(0, end + kMessage.size());
  begin_message();
  return true;
}

void HarmonyParser::begin_message() {
  const std::string recipient = word_after(header_, "to=");
  if (with_calls_ && !recipient.empty() && recipient != "assistant" && recipient != "user") {
    tool_ = recipient.starts_with(kFunctions) ? recipient.substr(kFunctions.size()) : recipient;
    place_ = Place::call;
    return;
  }
  place_ = word_after(header_, kChannel) == "analysis" ? Place::reasoning : Place::content;
}

void HarmonyParser::add(std::string_view text, ParsedText& out) {
  switch (place_) {
    case Place::reasoning:
      out.reasoning += text;
      break;
    case Place::call:
      message_ += text;
      break;
    default:
      out.content += text;
  }
}

void HarmonyParser::end_message(ParsedText& out) {
  if (place_ == Place::call) {
    if (is_json_object(message_)) {
      out.calls.push_back({.call = num_calls_++, .name = tool_, .arguments = message_});
    } else {
      out.content += header_ + message_;
    }
    message_.clear();
  }
  header_.clear();
  place_ = Place::header;
}

bool HarmonyParser::read(ParsedText& out) {
  if (place_ == Place::begin) {
    const size_t first = std::min(held_.find_first_not_of(" \n"), held_.size());
    const std::string_view rest = std::string_view(held_).substr(first);
    for (const std::string_view begin :
         {kStart, kChannel, kMessage, std::string_view("to=functions.")}) {
      if (rest.starts_with(begin)) {
        place_ = Place::header;
        return true;
      }
      if (begin.starts_with(rest)) return false;
    }
    place_ = Place::content;
  }
  if (place_ == Place::header) return read_header();
  size_t end = held_.npos, held = 0;
  std::string_view found;
  for (const std::string_view marker : kEnds) {
    held = std::max(held, held_back(held_, marker));
    const size_t at = held_.find(marker);
    if (at >= end) continue;
    end = at;
    found = marker;
  }
  if (end == held_.npos) {
    add(std::string_view(held_).substr(0, held_.size() - held), out);
    held_.erase(0, held_.size() - held);
    return false;
  }
  add(std::string_view(held_).substr(0, end), out);
  // The next header begins with these two.
  const bool begins = found == kStart || found == kChannel;
  held_.erase(0, end + (begins ? 0 : found.size()));
  end_message(out);
  return true;
}

ParsedText HarmonyParser::push(std::string_view text) {
  ParsedText out;
  held_ += text;
  while (!held_.empty() && read(out)) {
  }
  return out;
}

ParsedText HarmonyParser::finish() {
  ParsedText out;
  if (place_ == Place::begin) out.content = held_;
  if (place_ != Place::begin && place_ != Place::header) {
    add(held_, out);
    end_message(out);
  }
  held_.clear();
  return out;
}

}  // namespace colossal::text
