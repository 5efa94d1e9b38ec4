// The state of a running template: variables, output, and limits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colossal/text/jinja/value.h"

namespace colossal::text::jinja {

// Templates come with downloaded models and are not trusted: exceeding a limit is an error.
struct Limits {
  int64_t steps = 1'000'000;  // executed nodes, plus other work in units of about one node
  int depth = 2000;           // nesting of executed nodes
  int64_t output_bytes = int64_t{16} << 20;
};

// Byte range [begin, end) of a text.
struct Span {
  size_t begin = 0, end = 0;
  auto operator<=>(const Span&) const = default;
};

// The variables of a block. A block can read the variables of the enclosing blocks (`parent`), but
// sets only its own.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::map<std::string, Value, std::less<>> names;
};

class Interpreter {
 public:
  // context: a dict of the template's variables.
  Interpreter(const Value& context, const Limits& limits);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Every node calls enter() when it starts and leave() when it ends. Throws TemplateError at a
  // limit.
  void enter(int line);
  void leave() { --depth_; }
  // Call before creating a text of `bytes` bytes: counts it as steps. Throws TemplateError at a
  // limit.
  void charge(size_t bytes);
  // Call before iterating over `value`: counts its characters or elements as steps; if `deep`,
  // those of nested values, too. Throws TemplateError at a limit.
  void charge_for(const Value& value, bool deep = false);
  void charge_for(const Arguments& arguments, bool deep = false);
  void charge_elements(int64_t count);
  void count_call() { add_steps(1); }  // of a filter or a test, for an element
  // The longest text there may be.
  size_t most_bytes() const { return static_cast<size_t>(limits_.output_bytes); }
  // What is computed is charged first: jinja::iterate(), and value.str().
  std::shared_ptr<const List> iterate(const Value& value);
  std::string text_of(const Value& value);
  // Adds to a text that is being made.
  void append(std::string& text, std::string_view part);
  int line() const { return line_; }

  Value find(const std::string& name) const;  // undefined if there is none of this name
  void set(const std::string& name, Value value);

  // Runs `run` in a new scope inside `parent`, by default inside the current scope.
  void in_scope(const std::function<void()>& run, std::shared_ptr<Scope> parent = {});
  // Returns the current scope, for a macro to keep: the macro sees changes up to the time of its
  // call.
  std::shared_ptr<Scope> capture_scope();
  std::shared_ptr<Namespace> make_namespace();

  void write(std::string_view text);
  // Runs `run` and returns what it writes instead of adding it to the output.
  std::string capture(const std::function<void()>& run);

  void add_generation(size_t begin, size_t length) { spans_.push_back({begin, begin + length}); }
  const std::string& output() const { return output_; }
  const std::vector<Span>& generations() const { return spans_; }

 private:
  void add_steps(int64_t count);
  void require_length(size_t bytes) const;  // of one text

  Limits limits_;
  int64_t steps_ = 0;
  int depth_ = 0;
  int line_ = 1;
  std::shared_ptr<Scope> scope_;
  std::string output_;
  std::string* target_ = &output_;
  std::vector<Span> spans_;
  // Macros and namespaces can form reference cycles through these; the destructor empties them.
  std::vector<std::shared_ptr<Scope>> captured_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

}  // namespace colossal::text::jinja
