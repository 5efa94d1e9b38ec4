// The state that a template's nodes share while they run: variables, output, and limits.
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

// A template comes with a model's files and is not to be trusted: it ends with an error at any of
// these.
struct Limits {
  int64_t steps = 1'000'000;  // nodes run, and work that takes as long
  int depth = 2000;           // of nodes that run within each other
  int64_t output_bytes = int64_t{16} << 20;
};

// Bytes [begin, end) of a text.
struct Span {
  size_t begin = 0, end = 0;
  auto operator<=>(const Span&) const = default;
};

// Variables of a block of the template; those of the blocks around it are seen, not set.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::map<std::string, Value, std::less<>> names;
};

class Interpreter {
 public:
  // context: a dict of the variables that the template finds.
  Interpreter(const Value& context, const Limits& limits);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Each node calls it when it begins, and leave() at its end. Throws TemplateError at a limit.
  void enter(int line);
  void leave() { --depth_; }
  // So many bytes of text were made. Throws TemplateError.
  void charge(size_t bytes);
  // Counts the characters or elements of a value that is gone through as steps; with `deep`, nested
  // ones too.
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

  Value find(const std::string& name) const;  // undefined where there is none
  void set(const std::string& name, Value value);

  // Runs within a scope of its own, inside `parent` or, without it, the current one.
  void in_scope(const std::function<void()>& run, std::shared_ptr<Scope> parent = {});
  // The current scope, for a macro, which sees it as it is when it is called.
  std::shared_ptr<Scope> capture_scope();
  std::shared_ptr<Namespace> make_namespace();

  void write(std::string_view text);
  // Returns what `run` writes, which is kept out of the output.
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
  // Values may hold each other in a circle through these; emptied at the end.
  std::vector<std::shared_ptr<Scope>> captured_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

}  // namespace colossal::text::jinja
