// The state of one rendering of a template: variables, output, and how much of the limits is used.
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

// Limits of one rendering. Exceeding a limit throws TemplateError. Templates come with downloaded
// models and are not trusted.
struct Limits {
  // Executed nodes, plus other work: 256 bytes of text or 4 elements count as one step.
  int64_t steps = 1'000'000;
  int depth = 2000;                          // nesting of executed nodes
  int64_t output_bytes = int64_t{16} << 20;  // of the output, and of any other text
};

// The bytes [begin, end) of a text.
struct Span {
  size_t begin = 0, end = 0;
  auto operator<=>(const Span&) const = default;
};

// The variables of a block. A block can read the variables of the enclosing blocks, but sets only
// its own.
struct Scope {
  std::shared_ptr<Scope> parent;                    // the enclosing block's; null: none
  std::map<std::string, Value, std::less<>> names;  // value by variable
};

// Runs one rendering of a template. Nodes, filters and functions receive the interpreter. Not
// thread-safe. After a TemplateError, only line() may be called.
class Interpreter {
 public:
  // context: a dict with the values of the template's variables by name.
  Interpreter(const Value& context, const Limits& limits);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Every node calls enter() when it starts and leave() when it ends. line: the node's line in the
  // template. enter() counts one step and throws TemplateError at a limit.
  void enter(int line);
  void leave() { --depth_; }
  // Call before creating a text of `bytes` bytes. Counts the text as steps. Throws TemplateError at
  // a limit.
  void charge(size_t bytes);
  // Call before iterating over `value`. Counts the bytes of a string or the elements of a list or
  // dict as steps; with `deep`, also those of nested values. Throws TemplateError at a limit.
  void charge_for(const Value& value, bool deep = false);
  void charge_for(const Arguments& arguments, bool deep = false);
  // Counts `count` elements as steps. Throws TemplateError at a limit.
  void charge_elements(int64_t count);
  // Counts one step. Filters such as `map` call this for each element to which they apply another
  // filter or test.
  void count_call() { add_steps(1); }
  // Returns the limit on the length of any text, in bytes.
  size_t max_bytes() const { return static_cast<size_t>(limits_.output_bytes); }
  // Returns what {% for %} iterates over, see jinja::iterate(). Counts the elements as steps.
  std::shared_ptr<const List> iterate(const Value& value);
  // Returns value.str(). Counts the value's size as steps.
  std::string text_of(const Value& value);
  // Appends `part` to `text` and counts `part` as steps. Throws TemplateError at a limit.
  void append(std::string& text, std::string_view part);
  // Returns the line of the node that was entered last.
  int line() const { return line_; }

  // Returns the variable or the global function of this name; undefined if there is neither.
  Value find(const std::string& name) const;
  // Sets a variable of the current scope.
  void set(const std::string& name, Value value);

  // Runs `run` in a new scope. parent: the scope that encloses the new one; null: the current
  // scope.
  void in_scope(const std::function<void()>& run, std::shared_ptr<Scope> parent = {});
  // Returns the current scope, for a macro to keep. When the macro is called, it sees the values
  // that the scope's variables have at that time.
  std::shared_ptr<Scope> capture_scope();
  // Returns a new, empty namespace.
  std::shared_ptr<Namespace> make_namespace();

  // Appends `text` to the output or, within capture(), to the captured text. Counts `text` as
  // steps. Throws TemplateError at a limit.
  void write(std::string_view text);
  // Runs `run` and returns the text that it writes. This text is not added to the output.
  std::string capture(const std::function<void()>& run);

  // Records a {% generation %} block: `length` bytes of the output from byte `begin`.
  void add_generation(size_t begin, size_t length) { spans_.push_back({begin, begin + length}); }
  const std::string& output() const { return output_; }
  // Returns the {% generation %} blocks recorded by add_generation().
  const std::vector<Span>& generations() const { return spans_; }

 private:
  // Throws TemplateError at the limit.
  void add_steps(int64_t count);
  // Throws TemplateError if a text of `bytes` bytes is too long.
  void require_length(size_t bytes) const;

  Limits limits_;
  int64_t steps_ = 0;
  int depth_ = 0;  // nesting of the current node
  int line_ = 1;
  std::shared_ptr<Scope> scope_;  // the current scope
  std::string output_;
  std::string* target_ = &output_;  // where write() appends
  std::vector<Span> spans_;
  // Variables of a captured scope or namespace can own this scope or namespace. The destructor
  // empties all of them to break such reference cycles.
  std::vector<std::shared_ptr<Scope>> captured_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

}  // namespace colossal::text::jinja
