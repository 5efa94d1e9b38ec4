#include "colossal/text/jinja/interpreter.h"

#include <algorithm>

#include "colossal/text/jinja/functions.h"
#include "colossal/text/jinja/python_text.h"

namespace colossal::text::jinja {
namespace {

// How many bytes, or elements, take about as long as evaluating a node.
constexpr int64_t kBytesOfStep = 256, kElementsOfStep = 4;

int64_t num_elements(const Value& value) {
  if (const List* list = value.list()) return static_cast<int64_t>(list->items.size());
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->entries.size());
  return 0;
}

}  // namespace

Interpreter::Interpreter(const Value& context, const Limits& limits)
    : limits_(limits), scope_(std::make_shared<Scope>()) {
  for (const auto& [name, value] : context.dict()->entries) {
    scope_->names[name.string()] = value;
  }
}

Interpreter::~Interpreter() {
  for (const auto& scope : captured_) scope->names.clear();
  for (const auto& space : namespaces_) space->entries.clear();
}

void Interpreter::enter(int line) {
  line_ = line;
  add_steps(1);
  if (++depth_ > limits_.depth) {
    throw TemplateError(
        fmt::format("macros or expressions are nested deeper than {} levels", limits_.depth));
  }
}

void Interpreter::add_steps(int64_t count) {
  steps_ += count;
  if (steps_ > limits_.steps) {
    throw TemplateError(fmt::format("the template takes more than {} steps", limits_.steps));
  }
}

void Interpreter::charge_for(const Value& value, bool deep) {
  if (value.is_string()) return add_steps(extent_of(value).size / kBytesOfStep);
  add_steps((deep ? extent_of(value).size : num_elements(value)) / kElementsOfStep);
}

void Interpreter::charge_for(const Arguments& arguments, bool deep) {
  for (const Value& value : arguments.positional) charge_for(value, deep);
  for (const auto& [name, value] : arguments.named) charge_for(value, deep);
}

void Interpreter::charge_elements(int64_t count) {
  add_steps(count / kElementsOfStep);
}

std::shared_ptr<const List> Interpreter::iterate(const Value& value) {
  charge_elements(value.is_string() ? length_of(value.string()) : num_elements(value));
  return jinja::iterate(value);
}

std::string Interpreter::text_of(const Value& value) {
  charge_for(value, /*deep=*/true);
  return value.str();
}

void Interpreter::require_length(size_t bytes) const {
  if (static_cast<int64_t>(bytes) <= limits_.output_bytes) return;
  throw TemplateError(fmt::format("a text is longer than {} MiB", limits_.output_bytes >> 20));
}

void Interpreter::charge(size_t bytes) {
  require_length(bytes);
  add_steps(static_cast<int64_t>(bytes) / kBytesOfStep);
}

void Interpreter::append(std::string& text, std::string_view part) {
  require_length(text.size() + part.size());
  charge(part.size());
  text += part;
}

Value Interpreter::find(const std::string& name) const {
  for (const Scope* scope = scope_.get(); scope; scope = scope->parent.get()) {
    const auto found = scope->names.find(name);
    if (found != scope->names.end()) return found->second;
  }
  return find_global(name);
}

void Interpreter::set(const std::string& name, Value value) {
  scope_->names.insert_or_assign(name, std::move(value));
}

void Interpreter::in_scope(const std::function<void()>& run, std::shared_ptr<Scope> parent) {
  const std::shared_ptr<Scope> outer = scope_;
  scope_ = std::make_shared<Scope>(Scope{parent ? std::move(parent) : outer, {}});
  run();
  scope_ = outer;
}

std::shared_ptr<Scope> Interpreter::capture_scope() {
  if (captured_.empty() || captured_.back() != scope_) captured_.push_back(scope_);
  return scope_;
}

std::shared_ptr<Namespace> Interpreter::make_namespace() {
  namespaces_.push_back(std::make_shared<Namespace>());
  return namespaces_.back();
}

void Interpreter::write(std::string_view text) {
  append(*target_, text);
}

std::string Interpreter::capture(const std::function<void()>& run) {
  std::string text;
  std::string* const outer = std::exchange(target_, &text);
  run();
  target_ = outer;
  return text;
}

}  // namespace colossal::text::jinja
