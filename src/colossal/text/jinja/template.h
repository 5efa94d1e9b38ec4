// A Jinja template, in the subset of Jinja that chat templates use. It is rendered as by
// `transformers`: with trim_blocks and lstrip_blocks, immutable lists and dicts, and the tags
// generation, break and continue. Not supported: include, import, extends, block and recursive
// loops.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/jinja/interpreter.h"
#include "colossal/text/jinja/nodes.h"

namespace colossal::text::jinja {

struct Rendered {
  std::string text;
  std::vector<Span> generations;  // byte ranges of the {% generation %} blocks in `text`
};

// Immutable and thread-safe.
class Template {
 public:
  // Throws TemplateError with a message like "line 3: reason".
  explicit Template(std::string_view source);

  // context: a dict of the template's variables by name. Throws TemplateError if the template fails
  // or exceeds a limit, and its subclass TemplateRefusal if the template calls raise_exception().
  Rendered render(const Value& context, const Limits& limits = {}) const;

 private:
  Block block_;
};

}  // namespace colossal::text::jinja
