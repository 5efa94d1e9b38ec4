// The filter `tojson`, with the output format of Python's json.dumps().
#include <algorithm>
#include <cmath>

#include "colossal/text/jinja/python_text.h"
#include "colossal/text/jinja/value.h"

namespace colossal::text::jinja {
namespace {

class JsonOutput {
 public:
  JsonOutput(bool ensure_ascii, int indent, std::string_view item_end, std::string_view key_end,
             bool sort_keys, size_t max_bytes)
      : ensure_ascii_(ensure_ascii),
        indent_(indent),
        item_end_(item_end),
        key_end_(key_end),
        sort_keys_(sort_keys),
        most_bytes_(max_bytes) {}

  void write(const Value& value) {
    if (value.is_none()) {
      text_ += "null";
    } else if (value.is_boolean()) {
      text_ += value.integer() ? "true" : "false";
    } else if (value.is_integer()) {
      text_ += std::to_string(value.integer());
    } else if (value.is_float()) {
      text_ += float_text(value.number());
    } else if (value.is_string()) {
      text_ += json_quoted(value.string(), ensure_ascii_);
    } else if (value.list() && value.list()->kind != List::Kind::generator) {
      write_list(*value.list());
    } else if (value.dict()) {
      write_dict(*value.dict());
    } else {
      throw TemplateError(
          fmt::format("tojson: a value of type {} cannot be written as JSON", value.type_name()));
    }
  }

  std::string take() { return std::move(text_); }

 private:
  static std::string float_text(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return python_float(value);
  }

  void begin_line() {
    if (indent_ < 0) return;
    text_ += '\n';
    text_.append(static_cast<size_t>(level_ * indent_), ' ');
  }

  template <class Items, class Function>
  void write_items(char open, char close, const Items& items, Function write_item) {
    text_ += open;
    ++level_;
    bool first = true;
    for (const auto& item : items) {
      if (text_.size() > most_bytes_) return;
      if (!first) text_ += item_end_;
      first = false;
      begin_line();
      write_item(item);
    }
    --level_;
    if (!first) begin_line();
    text_ += close;
  }

  void write_list(const List& list) {
    write_items('[', ']', list.items, [&](const Value& item) { write(item); });
  }

  void write_dict(const Dict& dict) {
    auto entries = dict.entries;
    if (sort_keys_) {
      std::ranges::stable_sort(
          entries, [](const auto& a, const auto& b) { return compare(a.first, b.first) < 0; });
    }
    write_items('{', '}', entries, [&](const auto& entry) {
      text_ += json_quoted(key_text(entry.first), ensure_ascii_);
      text_ += key_end_;
      write(entry.second);
    });
  }

  static std::string key_text(const Value& key) {
    if (key.is_string()) return key.string();
    if (key.is_none()) return "null";
    if (key.is_boolean()) return key.integer() ? "true" : "false";
    if (key.is_number()) return key.str();
    throw TemplateError(
        fmt::format("tojson: a value of type {} cannot be a key in JSON", key.type_name()));
  }

  bool ensure_ascii_;
  int indent_;
  std::string_view item_end_, key_end_;
  bool sort_keys_;
  size_t most_bytes_;
  int level_ = 0;
  std::string text_;
};

}  // namespace

std::string to_json(const Value& value, bool ensure_ascii, int indent, std::string_view item_end,
                    std::string_view key_end, bool sort_keys, size_t max_bytes) {
  JsonOutput output(ensure_ascii, indent, item_end, key_end, sort_keys, max_bytes);
  output.write(value);
  return output.take();
}

}  // namespace colossal::text::jinja
