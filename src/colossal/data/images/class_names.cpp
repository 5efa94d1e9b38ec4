#include "colossal/data/images/class_names.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "colossal/base/error.h"
#include "colossal/base/nearest.h"
#include "colossal/io/json.h"

namespace colossal::data {
namespace {

constexpr int64_t kMostClasses = int64_t{1} << 24;

}  // namespace

Label parse_label(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  return std::string(text);
}

ClassNames::ClassNames(std::vector<std::string> given)
    : is_given_(!given.empty()), names_(std::move(given)) {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (!numbers_.emplace(names_[i], static_cast<int32_t>(i)).second) {
      throw ConfigError(fmt::format("the class {} is given twice", io::quote_text(names_[i])));
    }
  }
}

void ClassNames::add(const std::optional<Label>& label, const std::string& where) {
  if (!label) {
    labels_.push_back(kNone);
  } else if (const auto* const number = std::get_if<int64_t>(&*label)) {
    labels_.push_back(checked_number(*number, where));
  } else {
    labels_.push_back(number_of(std::get<std::string>(*label), where));
  }
}

void ClassNames::refuse_mixture(bool is_number, const std::string& where) {
  if (has_numbers_.value_or(is_number) != is_number) {
    throw ConfigError(
        fmt::format("{}: the label is a {}, but earlier labels are {}: use the same "
                    "for all samples",
                    where, is_number ? "number" : "name", is_number ? "names" : "numbers"));
  }
  has_numbers_ = is_number;
}

int32_t ClassNames::number_of(const std::string& name, const std::string& where) {
  refuse_mixture(false, where);
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) return found->second;
  if (is_given_) {
    throw ConfigError(fmt::format("{}: the class {} is unknown; there are {} classes, such as {}",
                                  where, io::quote_text(name), names_.size(),
                                  io::quote_text(nearest(name, names_))));
  }
  const auto number = static_cast<int32_t>(names_.size());
  names_.push_back(name);
  numbers_.emplace(name, number);
  return number;
}

int32_t ClassNames::checked_number(int64_t number, const std::string& where) {
  refuse_mixture(true, where);
  const int64_t limit = is_given_ ? std::ssize(names_) : kMostClasses;
  if (number < 0 || number >= limit) {
    throw ConfigError(fmt::format("{}: the label is {}, but must be from 0 to {}{}", where, number,
                                  limit - 1, is_given_ ? ", as there are so many classes" : ""));
  }
  largest_ = std::max(largest_, static_cast<int32_t>(number));
  return static_cast<int32_t>(number);
}

std::vector<std::string> ClassNames::finish() {
  if (is_given_) return names_;
  if (has_numbers_.value_or(false)) {
    for (int32_t i = 0; i <= largest_; ++i) names_.push_back(std::to_string(i));
    return names_;
  }
  std::vector<std::string> sorted = names_;
  std::ranges::sort(sorted);
  std::vector<int32_t> places(names_.size());
  for (size_t i = 0; i < sorted.size(); ++i) {
    places[static_cast<size_t>(numbers_.at(sorted[i]))] = static_cast<int32_t>(i);
  }
  for (int32_t& label : labels_) {
    if (label != kNone) label = places[static_cast<size_t>(label)];
  }
  return sorted;
}

std::optional<int64_t> ClassNames::label(int64_t i) const {
  const int32_t label = labels_[static_cast<size_t>(i)];
  return label == kNone ? std::nullopt : std::optional<int64_t>(label);
}

}  // namespace colossal::data
