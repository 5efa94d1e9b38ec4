// ClassNames: gives labels their numbers, while a source of images is opened.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

namespace colossal::data {

// A label as data give it: a name, or a number from 0.
using Label = std::variant<std::string, int64_t>;

// Reads a label that is written as text: a number if it has only digits, else a name.
Label parse_label(std::string_view text);

class ClassNames {
 public:
  // given: ImageSourceOptions::classes.
  explicit ClassNames(std::vector<std::string> given);

  // Adds the label of the next sample. Throws ConfigError, with `where`, if it is not among the
  // given classes, is a number below 0 or too large, or if some labels are names and some numbers.
  void add(const std::optional<Label>& label, const std::string& where);

  // Ends adding. Returns the names of the classes: those given, else the names of all labels,
  // sorted by bytes, or all numbers up to the largest.
  std::vector<std::string> finish();
  // After finish(): returns the label of sample i as an index of the classes.
  std::optional<int64_t> label(int64_t i) const;

 private:
  int32_t number_of(const std::string& name, const std::string& where);
  int32_t checked_number(int64_t number, const std::string& where);
  void refuse_mixture(bool is_number, const std::string& where);

  bool is_given_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, int32_t> numbers_;  // of names_
  std::vector<int32_t> labels_;                       // of samples; kNone
  std::optional<bool> has_numbers_;                   // whether labels are numbers
  int32_t largest_ = -1;                              // of the numbers

  static constexpr int32_t kNone = -1;
};

}  // namespace colossal::data
