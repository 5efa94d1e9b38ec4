// Finds the answer in a text, and compares answers to mathematical questions. Used by the reward
// `accuracy` (rewards.h).
#pragma once

#include <string>

namespace colossal::tune {

// Returns the answer in a text: what is within the last "\boxed{...}", whose braces may nest; else
// what is between the last "<answer>" and the "</answer>" after it; else the whole text. Blanks
// around it are removed.
std::string find_answer(const std::string& text);

// Whether two answers mean the same. Numbers are compared by value: 12 equals 12.0 and 1.2e1, and
// 1,000 equals 1000, but 1,2 does not equal 12: thousands are groups of three digits. A fraction
// a/b or \frac{a}{b} of numbers equals its value. Lists, such as "3, 4" or "(3, 4)", are equal if
// their elements are. "x = 3" equals 3. Everything else is compared as text without blanks and
// without LaTeX that does not change the meaning: $...$, \(...\), \left, \right, \text{...},
// spaces, \dfrac and \frac12 for \frac{1}{2}, a period at the end.
bool is_same_answer(const std::string& given, const std::string& expected);

}  // namespace colossal::tune
