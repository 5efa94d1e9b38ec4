#include "colossal/data/json_values.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "colossal/base/error.h"
#include "colossal/data/converted_stream.h"

namespace colossal::data {
namespace {

class JsonValues : public ConvertedStream {
 public:
  JsonValues(std::unique_ptr<ByteStream> content, std::string path)
      : content_(std::move(content)), path_(std::move(path)) {}

  int64_t bytes_read() const override { return content_->bytes_read(); }

 private:
  bool convert(std::string& lines) override {
    std::string bytes(kConvertedAtOnce, '\0');
    bytes.resize(content_->read(bytes));
    const bool at_end = bytes.size() < kConvertedAtOnce;
    std::string_view text = bytes;
    if (!begun_) begin(text);
    if (is_lines_) {
      lines += text;
    } else {
      for (const char c : text) add(c, lines);
      if (at_end) end(lines);
    }
    return !at_end;
  }

  // Decides what the content is, and skips a byte order mark.
  void begin(std::string_view& text) {
    begun_ = true;
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    const size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return;
    is_list_ = text[first] == '[';
    const size_t end = text.find('\n', first);
    is_lines_ = !is_list_ && end != std::string_view::npos &&
                nlohmann::json::accept(text.substr(first, end - first));
  }

  void add(char c, std::string& lines) {
    if (in_string_) return add_to_string(c);
    switch (c) {
      case '"':
        in_string_ = true;
        value_ += c;
        return;
      case '{':
      case '[':
        refuse_after_list(c);
        if (++depth_ > list_depth()) value_ += c;
        return;
      case '}':
      case ']':
        return close(c, lines);
      case ',':
        depth_ > list_depth() ? value_.push_back(c) : emit(lines);
        return;
      case '\n':
      case '\r':
      case '\t':
      case ' ':
        if (!value_.empty()) value_ += ' ';
        return;
      default:
        refuse_after_list(c);
        value_ += c;
    }
  }

  void add_to_string(char c) {
    // JSON has no line feeds within texts. Another invalid character keeps the line whole.
    value_ += c == '\n' || c == '\r' ? '\x1f' : c;
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
    }
  }

  void close(char c, std::string& lines) {
    if (--depth_ < 0) raise(fmt::format("has '{}' where no list or object is open", c));
    if (is_list_ && depth_ == 0) {
      emit(lines);
      list_ended_ = true;
      return;
    }
    value_ += c;
    if (depth_ == list_depth()) emit(lines);
    if (std::ssize(value_) > kLargestValue) raise("has a value of more than 1 GiB");
  }

  // Ends a value, if one has begun.
  void emit(std::string& lines) {
    if (!value_.empty()) lines.append(value_) += '\n';
    value_.clear();
  }

  void end(std::string& lines) {
    if (in_string_ || depth_ > 0) raise("ends within a value: it is incomplete");
    emit(lines);
  }

  void refuse_after_list(char c) const {
    if (list_ended_) raise(fmt::format("has '{}' after the end of its list", c));
  }

  [[noreturn]] void raise(const std::string& what) const {
    throw IoError(fmt::format("'{}' is no JSON: it {}", path_, what));
  }

  int list_depth() const { return is_list_ ? 1 : 0; }

  static constexpr int64_t kLargestValue = int64_t{1} << 30;

  std::unique_ptr<ByteStream> content_;
  std::string path_;
  bool begun_ = false;
  bool is_lines_ = false;  // the content is JSON lines
  bool is_list_ = false;   // the content is one list, whose values are the rows
  bool list_ended_ = false;
  bool in_string_ = false, escaped_ = false;
  int depth_ = 0;  // of lists and objects that are open
  std::string value_;
};

}  // namespace

std::unique_ptr<ByteStream> json_values_as_lines(std::unique_ptr<ByteStream> content,
                                                 const std::string& path) {
  return std::make_unique<JsonValues>(std::move(content), path);
}

}  // namespace colossal::data
