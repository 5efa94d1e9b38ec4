#include "colossal/text/jinja/template.h"

#include "colossal/text/jinja/parser.h"
#include "colossal/text/jinja/statements.h"

namespace colossal::text::jinja {

Template::Template(std::string_view source) : block_(parse(source)) {}

Rendered Template::render(const Value& context, const Limits& limits) const {
  Interpreter interpreter(context, limits);
  try {
    execute(block_, interpreter);
  } catch (const TemplateRefusal&) {
    throw;
  } catch (const TemplateError& error) {
    throw TemplateError(fmt::format("line {}: {}", interpreter.line(), error.what()));
  }
  return {interpreter.output(), interpreter.generations()};
}

}  // namespace colossal::text::jinja
