// Splits a template into tokens: the text outside of tags, and the parts of {{...}} and {%...%}
// tags. Removes the white space that a "-" in a tag removes, and that trim_blocks and lstrip_blocks
// remove, which `transformers` sets for chat templates. As in Jinja, every line end becomes "\n",
// and one at the end of the template is dropped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colossal::text::jinja {

// A token of a template.
struct Token {
  enum class Kind {
    text,            // outside of tags
    block_begin,     // {%
    block_end,       // %}
    variable_begin,  // {{
    variable_end,    // }}
    name,            // variable, attribute, keyword or tag name
    string,          // quoted string
    integer,
    real,
    symbol,  // operator, bracket or punctuation mark
    end,     // the end of the template
  };
  Kind kind;
  // As written. Of a string: its value, with escapes resolved. Of a number: without "_". Empty for
  // the begin and end of a tag, and for `end`.
  std::string text;
  int line = 1;  // in the template, from 1
};

// Returns the tokens of a template. The last token has the kind `end`. Comments are left out.
// Throws TemplateError for a syntax error or if `source` is not UTF-8.
std::vector<Token> split_into_tokens(std::string_view source);

}  // namespace colossal::text::jinja
