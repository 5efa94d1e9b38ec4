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
  int64_t output_bytes = int64_t{16} << 20;  // of the output, and of any other text
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

// Runs one rendering of a template. Not thread-safe. After a TemplateError, only line() may be
// called.
class Interpreter {
 public:
  // context: a dict of the template's variables by name.
  Interpreter(const Value& context, const Limits& limits);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Every node calls enter(), with its line in the template, when it starts and leave() when it
  // ends. enter() throws TemplateError at a limit.
  void enter(int line);
  void leave() { --depth_; }
  // Call before creating a text of `bytes` bytes: counts it as steps. Throws TemplateError at a
  // limit.
  void charge(size_t bytes);
  // Call before iterating over `value`: counts its characters or elements as steps; if `deep`,
  // those of nested values, too. Throws TemplateError at a limit.
  void charge_for(const Value& value, bool deep = false);
  void charge_for(const Arguments& arguments, bool deep = false);
  // Counts `count` elements as steps, like charge_for().
  void charge_elements(int64_t count);
  // Counts a step for a filter or test that another filter applies to one element.
  void count_call() { add_steps(1); }
  // The limit on the length of any text, in bytes.
  size_t max_bytes() const { return static_cast<size_t>(limits_.output_bytes); }
  // Return jinja::iterate(value) and value.str(), after counting the elements and characters as
  // steps.
  std::shared_ptr<const List> iterate(const Value& value);
  std::string text_of(const Value& value);
  // Appends `part` to `text` and counts it as steps. Throws TemplateError at a limit.
  void append(std::string& text, std::string_view part);
  // The line of the node that was entered last.
  int line() const { return line_; }

  // Returns the variable or global function of this name; undefined if there is neither.
  Value find(const std::string& name) const;
  void set(const std::string& name, Value value);  // in the current scope

  // Runs `run` in a new scope inside `parent`, by default inside the current scope.
  void in_scope(const std::function<void()>& run, std::shared_ptr<Scope> parent = {});
  // Returns the current scope, for a macro to keep. When called, the macro sees the values that the
  // scope's variables have at that time.
  std::shared_ptr<Scope> capture_scope();
  std::shared_ptr<Namespace> make_namespace();

  void write(std::string_view text);  // appends to the output, or to what capture() collects
  // Runs `run` and returns what it writes instead of adding it to the output.
  std::string capture(const std::function<void()>& run);

  // Records a {% generation %} block by its byte range in the output.
  void add_generation(size_t begin, size_t length) { spans_.push_back({begin, begin + length}); }
  const std::string& output() const { return output_; }
  const std::vector<Span>& generations() const { return spans_; }

 private:
  void add_steps(int64_t count);
  void require_length(size_t bytes) const;  // throws if a text of `bytes` bytes is too long

  Limits limits_;
  int64_t steps_ = 0;
  int depth_ = 0;
  int line_ = 1;
  std::shared_ptr<Scope> scope_;
  std::string output_;
  std::string* target_ = &output_;  // where write() appends
  std::vector<Span> spans_;
  // Values in these may own the scope or namespace that holds them; the destructor empties all, to
  // break such reference cycles.
  std::vector<std::shared_ptr<Scope>> captured_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

}  // namespace colossal::text::jinja
