// A compiled Jinja template, in the subset of Jinja that chat templates use. Rendering follows
// `transformers`: trim_blocks and lstrip_blocks are set, lists and dicts are immutable, and the
// tags generation, break and continue exist. Not supported: include, import, extends, block and
// recursive loops.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/jinja/interpreter.h"
#include "colossal/text/jinja/nodes.h"

namespace colossal::text::jinja {

// The result of a rendering.
struct Rendered {
  std::string text;
  // Byte ranges in `text` of what the {% generation %} blocks wrote.
  std::vector<Span> generations;
  // Of a conversation (ChatTemplate): byte offsets in `text`, ascending. A special token that has
  // one of these within it is text that a user wrote (Tokenizer::encode_with_breaks()).
  std::vector<size_t> breaks = {};
};

// A parsed template. Immutable and thread-safe.
class Template {
 public:
  // source: the template's text. Throws TemplateError "line 3: reason" if it is invalid.
  explicit Template(std::string_view source);

  // Renders the template. context: a dict with the values of the template's variables by name.
  // Throws TemplateError if the template fails or exceeds a limit. Throws TemplateRefusal, a
  // subclass, if the template calls raise_exception().
  Rendered render(const Value& context, const Limits& limits = {}) const;

 private:
  Block block_;
};

}  // namespace colossal::text::jinja
