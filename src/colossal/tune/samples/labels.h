// The labels that a model gives to texts: classes, several tags, or numbers. Reads them from data
// and from a model's config.json.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "colossal/data/tokenize.h"
#include "colossal/models/labels.h"

namespace colossal::tune {

using models::Labels;
using models::labels_of;
using models::Problem;

// Finds the labels in all lines of jsonl files. A line's label, in the field `field`, is
//   a text, or true or false: the name of a class; classes are sorted by name
//   a whole number n: class number n of as many as the largest number needs, named LABEL_n
//   a list of texts: multi_label
//   a number with a decimal point, or any number if `problem` is regression: regression
// problem: nullopt: follows from the first line. setting: configuration key that names the files.
// Throws ConfigError that names file and line for a label of another kind than the first.
// With data::InvalidFiles::skip, such a line is skipped. format: data.format.
Labels find_labels(const std::vector<std::string>& patterns, const std::string& setting,
                   const std::string& field, std::optional<Problem> problem,
                   data::InvalidFiles invalid, data::FileFormat format = data::FileFormat::by_name);

// Returns what a model is trained to give to a text with this label: for single_label, the index of
// its class; for multi_label, 0 or 1 for each of the names; for regression, a number for each
// score. Throws data::InvalidLine if the label is of another kind or is not among the names.
std::vector<double> targets_of(const nlohmann::json& label, const Labels& labels);

}  // namespace colossal::tune
