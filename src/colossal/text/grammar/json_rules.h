// The rules of JSON itself, which all schemas share.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// Adds `more` at the end of `sequence`.
void append(Sequence& sequence, const Sequence& more);

// Makes the symbols of JSON's values. Texts have little white space (at most a line end and 20
// spaces in one place), numbers at most 18 digits before the point, and strings no lone surrogates.
class JsonRules {
 public:
  // grammar: must outlive the object.
  explicit JsonRules(Grammar& grammar);

  const Symbol& any_value() const { return value_; }
  const Symbol& any_object() const { return any_object_; }
  const Symbol& any_string() const { return string_; }
  const Symbol& any_integer() const { return integer_; }
  const Symbol& any_number() const { return number_; }

  // Returns strings of so many characters. maximum: negative: no limit.
  Symbol string(int64_t minimum, int64_t maximum);
  // Returns the values whose JSON is one of these texts. Texts with equal beginnings share rules.
  Symbol any_of(const std::set<std::string>& texts);

  // Returns `text` with optional white space on both sides, after it, and before it.
  Sequence spaced(std::string_view text) const;
  Sequence opened(std::string_view bracket) const;
  Sequence closed(std::string_view bracket) const;

 private:
  Symbol bracketed(std::string_view open, const Symbol& item, std::string_view close);

  Grammar& grammar_;
  Symbol space_, character_, string_, integer_, number_, value_, any_object_;
};

// Returns a symbol that matches exactly these texts. Texts with equal beginnings share rules.
Symbol add_texts(Grammar& grammar, const std::set<std::string>& texts);

}  // namespace colossal::text::grammar
