#include "colossal/text/jinja/interpreter.h"

#include <algorithm>

#include "colossal/text/jinja/functions.h"

namespace colossal::text::jinja {
namespace {

// What takes about as long as a node.
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
    scope_->names.emplace_back(name.string(), value);
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
        fmt::format("macros or expressions lie deeper than {} within each other", limits_.depth));
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

void Interpreter::charge(size_t bytes) {
  if (static_cast<int64_t>(bytes) > limits_.output_bytes) {
    throw TemplateError(fmt::format("a text is longer than {} MiB", limits_.output_bytes >> 20));
  }
  add_steps(static_cast<int64_t>(bytes) / kBytesOfStep);
}

Value Interpreter::find(const std::string& name) const {
  for (const Scope* scope = scope_.get(); scope; scope = scope->parent.get()) {
    const auto found = std::ranges::find(scope->names, name, &std::pair<std::string, Value>::first);
    if (found != scope->names.end()) return found->second;
  }
  return find_global(name);
}

void Interpreter::set(const std::string& name, Value value) {
  const auto found = std::ranges::find(scope_->names, name, &std::pair<std::string, Value>::first);
  if (found == scope_->names.end()) {
    scope_->names.emplace_back(name, std::move(value));
  } else {
    found->second = std::move(value);
  }
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
  charge(target_->size() + text.size() > static_cast<size_t>(limits_.output_bytes)
             ? target_->size() + text.size()
             : text.size());
  *target_ += text;
}

std::string Interpreter::capture(const std::function<void()>& run) {
  std::string text;
  std::string* const outer = std::exchange(target_, &text);
  run();
  target_ = outer;
  return text;
}

}  // namespace colossal::text::jinja
