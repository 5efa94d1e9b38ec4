// Cuts a template into text and the tokens within {{ }} and {% %}, with the white space control of
// trim_blocks and lstrip_blocks, as `transformers` renders chat templates.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colossal::text::jinja {

struct Token {
  enum class Kind {
    text,  // outside of tags
    block_begin,
    block_end,
    variable_begin,
    variable_end,
    name,
    string,
    integer,
    real,
    symbol,  // an operator or a bracket
    end,
  };
  Kind kind;
  std::string text;  // of a string: what it stands for
  int line = 1;
};

// The last token is `end`. Throws TemplateError.
std::vector<Token> split_into_tokens(std::string_view source);

}  // namespace colossal::text::jinja
