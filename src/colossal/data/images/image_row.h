// The fields of a row with an image (image_source.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "colossal/data/images/class_names.h"

namespace colossal::data {

struct ImageRow {
  std::string path;             // of the image; empty if the row has its bytes, or no image
  std::string content;          // the image file; empty if the row has its path, or no image
  bool has_null_bytes = false;  // whether the row has {"bytes": null}
  std::optional<Label> label;
  std::string text;
};

// Reads a row from a line of JSON. Fields with other names are ignored. Throws InvalidLine
// (json_line.h) if the line is no object, has no image, or has a field of another type.
ImageRow read_image_row(std::string_view line);

// Reads the label and the text of an object. Throws InvalidLine.
ImageRow read_label_and_text(const nlohmann::json& fields);

}  // namespace colossal::data
