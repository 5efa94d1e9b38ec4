#include "colossal/text/jinja/statements.h"

#include <algorithm>

namespace colossal::text::jinja {

using Flow = Statement::Flow;

Flow execute(const Block& block, Interpreter& interpreter) {
  for (const auto& statement : block) {
    const Flow then = statement->execute(interpreter);
    if (then != Flow::next) return then;
  }
  return Flow::next;
}

void Target::assign(Interpreter& interpreter, const Value& value) const {
  if (!parts.empty()) {
    const auto items = interpreter.iterate(value);
    if (items->items.size() != parts.size()) {
      throw TemplateError(fmt::format("{} values cannot be assigned to {} names",
                                      items->items.size(), parts.size()));
    }
    for (size_t i = 0; i < parts.size(); ++i) parts[i].assign(interpreter, items->items[i]);
  } else if (attribute.empty()) {
    interpreter.set(name, value);
  } else {
    Namespace* space = interpreter.find(name).space();
    if (!space) {
      throw TemplateError(
          fmt::format("'{}' is not a namespace, so attributes cannot be set in it", name));
    }
    if (attribute.starts_with('_')) {
      throw TemplateError("attributes of a namespace may not begin with an underscore");
    }
    space->entries.insert_or_assign(attribute, value);
  }
}

Flow Text::run(Interpreter& interpreter) const {
  interpreter.write(text_);
  return Flow::next;
}

Flow Print::run(Interpreter& interpreter) const {
  interpreter.write(interpreter.text_of(value_->evaluate(interpreter)));
  return Flow::next;
}

Flow If::run(Interpreter& interpreter) const {
  for (const auto& [condition, body] : branches_) {
    if (!condition || condition->evaluate(interpreter).truth())
      return jinja::execute(body, interpreter);
  }
  return Flow::next;
}

std::shared_ptr<const List> For::chosen_items(Interpreter& interpreter) const {
  const Value all = parts_.items->evaluate(interpreter);
  const auto items = interpreter.iterate(all);
  if (!parts_.condition) return items;
  auto chosen = std::make_shared<List>();
  for (const Value& item : items->items) {
    interpreter.in_scope([&] {
      parts_.target.assign(interpreter, item);
      if (parts_.condition->evaluate(interpreter).truth()) chosen->items.push_back(item);
    });
  }
  return chosen;
}

// Runs the body for one item. Returns false if the loop ends here.
bool For::run_round(Interpreter& interpreter, const std::shared_ptr<Loop>& loop) const {
  Flow then = Flow::next;
  interpreter.in_scope([&] {
    interpreter.set("loop", loop);
    parts_.target.assign(interpreter, loop->items->items[static_cast<size_t>(loop->index)]);
    then = jinja::execute(parts_.body, interpreter);
  });
  return then != Flow::end_loop;
}

Flow For::run(Interpreter& interpreter) const {
  const auto items = chosen_items(interpreter);
  const auto count = static_cast<int64_t>(items->items.size());
  if (count == 0) {
    Flow then = Flow::next;
    interpreter.in_scope([&] { then = jinja::execute(parts_.otherwise, interpreter); });
    return then;
  }
  for (int64_t i = 0; i < count; ++i) {
    // Each round has its own Loop: a template may keep `loop` in a variable, which must not change
    // then.
    auto loop = std::make_shared<Loop>(Loop{.items = items, .index = i});
    interpreter.enter(line());
    interpreter.leave();
    if (!run_round(interpreter, loop)) break;
  }
  return Flow::next;
}

Flow Set::run(Interpreter& interpreter) const {
  target_.assign(interpreter, value_->evaluate(interpreter));
  return Flow::next;
}

Value BlockOutput::compute(Interpreter& interpreter) const {
  return interpreter.capture(
      [&] { interpreter.in_scope([&] { jinja::execute(body_, interpreter); }); });
}

Flow With::run(Interpreter& interpreter) const {
  std::vector<Value> values;
  for (const auto& [target, value] : variables_) values.push_back(value->evaluate(interpreter));
  Flow then = Flow::next;
  interpreter.in_scope([&] {
    for (size_t i = 0; i < values.size(); ++i) variables_[i].first.assign(interpreter, values[i]);
    then = jinja::execute(body_, interpreter);
  });
  return then;
}

Value MacroDefinition::make_value(Interpreter& interpreter) const {
  return std::make_shared<const Function>(
      Function{name, [this, scope = interpreter.capture_scope()](Interpreter& running,
                                                                 const Arguments& arguments) {
                 return call(running, arguments, scope);
               }});
}

Value MacroDefinition::call(Interpreter& interpreter, const Arguments& arguments,
                            const std::shared_ptr<Scope>& scope) const {
  return interpreter.capture([&] {
    interpreter.in_scope(
        [&] {
          bind(interpreter, arguments);
          jinja::execute(body, interpreter);
        },
        scope);
  });
}

void MacroDefinition::bind(Interpreter& interpreter, const Arguments& arguments) const {
  const auto is_parameter = [&](const std::string& given) {
    return std::ranges::find(parameters, given, [](const auto& p) { return p.first; }) !=
           parameters.end();
  };
  std::vector<std::pair<Value, Value>> others;
  for (const auto& [given, value] : arguments.named) {
    if (given == "caller") interpreter.set(given, value);
    if (given != "caller" && !is_parameter(given)) others.emplace_back(given, value);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [parameter, otherwise] = parameters[i];
    const auto named =
        std::ranges::find(arguments.named, parameter, &std::pair<std::string, Value>::first);
    if (i < arguments.positional.size()) {
      interpreter.set(parameter, arguments.positional[i]);
    } else if (named != arguments.named.end()) {
      interpreter.set(parameter, named->second);
    } else {
      interpreter.set(parameter,
                      otherwise ? otherwise->evaluate(interpreter) : Value::undefined(parameter));
    }
  }
  const size_t used = std::min(parameters.size(), arguments.positional.size());
  interpreter.set("varargs",
                  make_list({arguments.positional.begin() + static_cast<std::ptrdiff_t>(used),
                             arguments.positional.end()},
                            List::Kind::tuple));
  interpreter.set("kwargs", make_dict(std::move(others)));
}

Flow Macro::run(Interpreter& interpreter) const {
  interpreter.set(definition_.name, definition_.make_value(interpreter));
  return Flow::next;
}

Flow CallBlock::run(Interpreter& interpreter) const {
  interpreter.write(interpreter.text_of(call_->call(interpreter, caller_.make_value(interpreter))));
  return Flow::next;
}

Flow Generation::run(Interpreter& interpreter) const {
  const std::string text = interpreter.capture(
      [&] { interpreter.in_scope([&] { jinja::execute(body_, interpreter); }); });
  interpreter.add_generation(interpreter.output().size(), text.size());
  interpreter.write(text);
  return Flow::next;
}

}  // namespace colossal::text::jinja
