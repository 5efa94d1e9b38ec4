// A Jinja template, in the part of Jinja that chat templates use, rendered as `transformers` does:
// with trim_blocks, lstrip_blocks, values that cannot be changed, and the tags generation, break
// and continue; without include, import, extends, block and recursive loops.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/jinja/interpreter.h"
#include "colossal/text/jinja/nodes.h"

namespace colossal::text::jinja {

struct Rendered {
  std::string text;
  std::vector<Span> generations;  // what stands in {% generation %} blocks, by bytes of the text
};

// May render from several threads at once.
class Template {
 public:
  // Throws TemplateError "line 3: reason".
  explicit Template(std::string_view source);

  // context: a dict of variables. Throws TemplateError, of which TemplateRefusal is the template's
  // own.
  Rendered render(const Value& context, const Limits& limits = {}) const;

 private:
  Block block_;
};

}  // namespace colossal::text::jinja
