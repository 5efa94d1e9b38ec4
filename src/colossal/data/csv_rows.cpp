#include "colossal/data/csv_rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/data/converted_stream.h"
#include "colossal/data/json_text.h"

namespace colossal::data {
namespace {

constexpr size_t kLargestCell = size_t{1} << 30;

struct Cell {
  std::string text = {};
  bool quoted = false;
};

// Returns the JSON of a cell that may be another value than a text.
std::string typed_json(const std::string& text) {
  if (text == "True" || text == "TRUE") return "true";
  if (text == "False" || text == "FALSE") return "false";
  return nlohmann::json::accept(text) && !text.starts_with('"') ? nlohmann::json::parse(text).dump()
                                                                : json_text(text);
}

class CsvRows : public ConvertedStream {
 public:
  CsvRows(std::unique_ptr<ByteStream> content, char separator, const RowOptions& options,
          std::string path)
      : content_(std::move(content)),
        separator_(separator),
        options_(options),
        path_(std::move(path)) {}

  int64_t bytes_read() const override { return content_->bytes_read(); }

 private:
  bool convert(std::string& lines) override {
    std::string bytes(kConvertedAtOnce, '\0');
    bytes.resize(content_->read(bytes));
    const bool at_end = bytes.size() < kConvertedAtOnce;
    std::string_view text = bytes;
    if (!begun_ && text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    begun_ = true;
    for (const char c : text) add(c, lines);
    if (at_end) end(lines);
    return !at_end;
  }

  void add(char c, std::string& lines) {
    Cell& cell = record_.back();
    if (after_quote_) {  // a quote within quotes: the end of the cell, or the first of two
      after_quote_ = false;
      if (c == '"') {
        cell.text += c;
        return;
      }
      in_quotes_ = false;
    }
    if (in_quotes_) {
      if (c == '"') {
        after_quote_ = true;
        return;
      }
      cell.text += c;
      if (cell.text.size() > kLargestCell) raise("has a cell of more than 1 GiB");
      return;
    }
    if (c == separator_) {
      record_.emplace_back();
    } else if (c == '\n') {
      if (!cell.quoted && cell.text.ends_with('\r')) cell.text.pop_back();
      end_record(lines);
    } else if (c == '"' && cell.text.empty() && !cell.quoted) {
      cell.quoted = in_quotes_ = true;
    } else if (c != '\r' || !cell.quoted) {
      cell.text += c;
    }
  }

  void end(std::string& lines) {
    if (in_quotes_ && !after_quote_) raise("ends within quotes");
    if (!record_.back().quoted && record_.back().text.ends_with('\r')) {
      record_.back().text.pop_back();
    }
    end_record(lines);
  }

  void end_record(std::string& lines) {
    std::vector<Cell> record = std::exchange(record_, std::vector<Cell>(1));
    if (record.size() == 1 && record.front().text.empty() && !record.front().quoted) return;
    if (columns_.empty()) return name_columns(record);
    ++rows_;
    if (record.size() > columns_.size()) {
      raise(
          fmt::format("has {} cells in row {}, but {} columns; a cell with a separator, a quote "
                      "or a line feed needs quotes around it",
                      record.size(), rows_, columns_.size()));
    }
    record.resize(columns_.size());
    lines += '{';
    bool first = true;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (only_ && *only_ != i) continue;
      if (!std::exchange(first, false)) lines += ',';
      lines.append(json_text(columns_[i])) += ':';
      lines += json_of(record[i], columns_[i]);
    }
    lines += "}\n";
  }

  void name_columns(const std::vector<Cell>& record) {
    for (const Cell& cell : record) {
      if (std::ranges::count(columns_, cell.text) > 0) {
        raise(
            fmt::format("has two columns named \"{}\" in its first line, which must name the "
                        "columns",
                        cell.text));
      }
      if (cell.text == options_.column) only_ = columns_.size();
      columns_.push_back(cell.text);
    }
  }

  std::string json_of(const Cell& cell, const std::string& column) const {
    if (cell.text.empty() && !cell.quoted) return "null";
    return options_.typed_columns.contains(column) ? typed_json(cell.text) : json_text(cell.text);
  }

  [[noreturn]] void raise(const std::string& what) const {
    throw IoError(fmt::format("'{}' {}", path_, what));
  }

  std::unique_ptr<ByteStream> content_;
  char separator_;
  RowOptions options_;
  std::string path_;
  bool begun_ = false;
  bool in_quotes_ = false, after_quote_ = false;
  std::vector<Cell> record_ = std::vector<Cell>(1);
  std::vector<std::string> columns_;
  std::optional<size_t> only_;  // index of the only column that is wanted
  int64_t rows_ = 0;
};

}  // namespace

std::unique_ptr<ByteStream> csv_as_lines(std::unique_ptr<ByteStream> content, char separator,
                                         const RowOptions& options, const std::string& path) {
  return std::make_unique<CsvRows>(std::move(content), separator, options, path);
}

}  // namespace colossal::data
