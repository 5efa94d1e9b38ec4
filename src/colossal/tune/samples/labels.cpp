#include "colossal/tune/samples/labels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "colossal/base/error.h"
#include "colossal/data/json_line.h"
#include "colossal/io/json.h"
#include "colossal/tune/samples/samples.h"

namespace colossal::tune {
namespace {

using data::InvalidLine;
using nlohmann::json;

constexpr int64_t kMostClasses = 100'000;

// Returns the name of a class in a line; nullopt if `label` is a number or a list.
std::optional<std::string> class_name(const json& label) {
  if (label.is_string()) return label.get<std::string>();
  if (label.is_boolean()) return label.get<bool>() ? "true" : "false";
  return std::nullopt;
}

Problem problem_of(const json& label) {
  if (label.is_array()) return Problem::multi_label;
  return label.is_number_float() ? Problem::regression : Problem::single_label;
}

[[noreturn]] void refuse_label(const json& label, Problem problem, const std::string& expected) {
  throw InvalidLine(fmt::format("its label is {}, but with problem type {}, {} is expected",
                                io::show_value(label), problem_name(problem), expected));
}

class LabelCollector {
 public:
  explicit LabelCollector(std::optional<Problem> problem) : problem_(problem) {}

  void add(const json& label) {
    if (!problem_) problem_ = problem_of(label);
    switch (*problem_) {
      case Problem::single_label:
        return add_class(label);
      case Problem::multi_label:
        if (!label.is_array()) refuse_label(label, *problem_, "a list of texts");
        for (const json& each : label) add_name(each);
        return;
      case Problem::regression:
        return add_numbers(label);
    }
  }

  Labels labels() const {
    const Problem problem = problem_.value_or(Problem::single_label);
    if (problem == Problem::regression) return {problem, models::numbered_labels(numbers_)};
    if (numbers_ > 0) return {problem, models::numbered_labels(numbers_)};
    return {problem, {names_.begin(), names_.end()}};
  }

 private:
  void add_class(const json& label) {
    if (!label.is_number_integer()) return add_name(label);
    const auto number = label.get<int64_t>();
    if (number < 0 || number >= kMostClasses || !names_.empty()) {
      refuse_label(label, *problem_,
                   names_.empty() ? fmt::format("a class from 0 to {}", kMostClasses - 1)
                                  : "a text, as in the lines before");
    }
    numbers_ = std::max(numbers_, number + 1);
  }

  void add_name(const json& label) {
    const std::optional<std::string> name = class_name(label);
    if (!name || numbers_ > 0) {
      refuse_label(label, *problem_,
                   numbers_ > 0 ? "a whole number, as in the lines before" : "a text");
    }
    names_.insert(*name);
  }

  void add_numbers(const json& label) {
    const int64_t count = label.is_array() ? std::ssize(label) : 1;
    const bool numeric =
        label.is_array() ? std::ranges::all_of(label, [](const json& n) { return n.is_number(); })
                         : label.is_number();
    if (!numeric || count == 0 || (numbers_ > 0 && numbers_ != count)) {
      refuse_label(label, *problem_,
                   numbers_ > 0 ? fmt::format("a number for each of {} scores", numbers_)
                                : "a number, or a list of numbers");
    }
    numbers_ = count;
  }

  std::optional<Problem> problem_;
  int64_t numbers_ = 0;          // of classes without names, or of numbers of a line
  std::set<std::string> names_;  // of classes
};

}  // namespace

Labels find_labels(const std::vector<std::string>& patterns, const std::string& setting,
                   const std::string& field, std::optional<Problem> problem,
                   data::InvalidFiles invalid, data::FileFormat format) {
  LabelCollector collector(problem);
  for_each_json_line(
      patterns, setting, invalid,
      [&](const json& line) {
        const auto label = line.find(field);
        if (label == line.end() || label->is_null()) {
          throw InvalidLine(
              fmt::format("there is no \"{}\" in it, which data.label_field names", field));
        }
        collector.add(*label);
      },
      field, format);
  return collector.labels();
}

namespace {

double index_of(const json& label, const Labels& labels) {
  const auto count = std::ssize(labels.names);
  if (label.is_number_integer()) {
    const auto number = label.get<int64_t>();
    if (number >= 0 && number < count) return static_cast<double>(number);
  } else if (const auto name = class_name(label)) {
    const auto found = std::ranges::find(labels.names, *name);
    if (found != labels.names.end()) return static_cast<double>(found - labels.names.begin());
  }
  constexpr int64_t kShown = 20;
  throw InvalidLine(fmt::format(
      "its label is {}, but the model has the {} labels {}{}", io::show_value(label), count,
      fmt::join(labels.names.begin(), labels.names.begin() + std::min<int64_t>(count, kShown),
                ", "),
      count > kShown ? ", ..." : ""));
}

}  // namespace

std::vector<double> targets_of(const json& label, const Labels& labels) {
  if (labels.problem == Problem::single_label) return {index_of(label, labels)};
  std::vector<double> targets(labels.names.size(), 0);
  if (labels.problem == Problem::multi_label) {
    if (!label.is_array()) refuse_label(label, labels.problem, "a list of texts");
    for (const json& each : label) targets[static_cast<size_t>(index_of(each, labels))] = 1;
    return targets;
  }
  const json numbers = label.is_array() ? label : json::array({label});
  const bool numeric = std::ranges::all_of(numbers, [](const json& n) { return n.is_number(); });
  if (!numeric || numbers.size() != targets.size()) {
    refuse_label(label, labels.problem,
                 fmt::format("a number for each of {} scores", targets.size()));
  }
  for (size_t i = 0; i < targets.size(); ++i) targets[i] = numbers[i].get<double>();
  return targets;
}

}  // namespace colossal::tune
