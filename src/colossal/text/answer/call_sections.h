// Finds tool calls in the forms that models write. Used by ToolCallParser.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "colossal/text/answer/json_call_reader.h"
#include "colossal/text/answer/tool_call_parser.h"

namespace colossal::text {

// Returns the length of the longest suffix of the text that is a proper prefix of the marker.
size_t held_back(std::string_view text, std::string_view marker);

// Divides an answer into content and sections. A section begins with a marker of the form, or is
// the whole answer, and ends with the end marker or where its JSON ends. A section without valid
// calls is content.
class CallSections : public ToolCallParser::Implementation {
 public:
  CallSections(ToolCallForm form, nlohmann::ordered_json tools);
  bool read(std::string_view& rest, ParsedText& out) override;
  void finish(std::string_view rest, ParsedText& out) override;

 private:
  enum class Place {
    content,  // before a marker
    section,
    after_section,
    at_begin,  // before an answer that may be calls as a whole
    only_content
  };

  bool is_whole_answer() const;
  bool is_json() const;
  void add_content(std::string_view text, ParsedText& out);
  bool read_content(std::string_view& rest, ParsedText& out);
  bool read_begin(std::string_view& rest, ParsedText& out);
  bool read_after(std::string_view& rest);
  void read_section(std::string_view& rest, ParsedText& out);
  void begin_section(std::string_view marker, std::string_view end);
  enum class Section { goes_on, over, wrong };
  Section push(char byte);
  Section push_json(char byte);
  // Returns the section's calls, or makes the section content.
  void end_section(ParsedText& out);
  void give_up(ParsedText& out);

  ToolCallForm form_;
  nlohmann::ordered_json tools_;
  Place place_;
  std::string spaces_;       // white space after the content; dropped if calls follow
  std::string section_;      // from its marker on
  size_t begin_length_ = 0;  // bytes of the section's marker
  std::string_view end_;     // the section's end marker
  bool has_begun_ = false;   // the section's JSON has begun
  ValueScanner json_;
};

}  // namespace colossal::text
