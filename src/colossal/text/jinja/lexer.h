// Splits a template into text and the tokens within {{ }} and {% %}. Applies the white space
// control of trim_blocks and lstrip_blocks, which `transformers` sets for chat templates.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colossal::text::jinja {

struct Token {
  enum class Kind {
    text,            // outside of tags
    block_begin,     // {%
    block_end,       // %}
    variable_begin,  // {{
    variable_end,    // }}
    name,
    string,
    integer,
    real,
    symbol,  // an operator or a bracket
    end,
  };
  Kind kind;
  std::string text;  // for strings: the unescaped value
  int line = 1;
};

// Returns the tokens of a template; the last one has the kind `end`. Throws TemplateError for a
// syntax error.
std::vector<Token> split_into_tokens(std::string_view source);

}  // namespace colossal::text::jinja
