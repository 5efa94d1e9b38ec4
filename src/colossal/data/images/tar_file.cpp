#include "colossal/data/images/tar_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "colossal/base/error.h"

namespace colossal::data {
namespace {

constexpr int64_t kBlock = 512;

// Where the fields of a header lie (POSIX.1-2001, "ustar Interchange Format").
struct Field {
  size_t offset, size;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kType{156, 1}, kMagic{257, 6},
    kPrefix{345, 155};

using Header = std::array<char, kBlock>;

std::string_view field_of(const Header& header, Field field) {
  return {header.data() + field.offset, field.size};
}

std::string_view text_of(const Header& header, Field field) {
  const std::string_view bytes = field_of(header, field);
  return bytes.substr(0, std::min(bytes.find('\0'), bytes.size()));
}

// Returns an octal number, or, as GNU tar writes large ones, a binary number after a byte 0x80.
std::optional<int64_t> number_of(const Header& header, Field field) {
  std::string_view bytes = field_of(header, field);
  if (static_cast<unsigned char>(bytes[0]) == 0x80) {
    uint64_t value = 0;
    for (const char c : bytes.substr(1)) {
      if (value >> 54 != 0) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return static_cast<int64_t>(value);
  }
  while (bytes.starts_with(' ')) bytes.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), value, 8);
  if (error != std::errc() || value < 0) return std::nullopt;
  const bool ends_well = end == bytes.data() + bytes.size() || *end == ' ' || *end == '\0';
  return ends_well ? std::optional(value) : std::nullopt;
}

bool is_zero(const Header& header) {
  return std::ranges::all_of(header, [](char c) { return c == 0; });
}

// The sum of all bytes, with the checksum itself as spaces.
int64_t checksum_of(const Header& header) {
  int64_t sum = 0;
  for (size_t i = 0; i < header.size(); ++i) {
    const bool is_checksum = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.size;
    sum += is_checksum ? ' ' : static_cast<unsigned char>(header[i]);
  }
  return sum;
}

class TarReader {
 public:
  explicit TarReader(const io::File& archive) : archive_(archive), end_(archive.size()) {}

  void list(const std::function<void(const TarMember&)>& add) {
    Header header;
    while (read_header(header)) {
      const auto size = size_of(header);
      if (!size || *size > end_ - position_) damaged("a file ends after the end of the archive");
      read_member(header, *size, add);
      position_ += (*size + kBlock - 1) / kBlock * kBlock;
    }
  }

 private:
  [[noreturn]] void damaged(const std::string& reason) const {
    throw IoError(fmt::format("'{}' is no tar archive, or a damaged one: {} (at byte {})",
                              archive_.path().string(), reason, position_));
  }

  // Returns false at the end of the archive: zeros, or the end of the file.
  bool read_header(Header& header) {
    if (position_ >= end_) return false;
    if (end_ - position_ < kBlock) damaged("it ends within a header");
    archive_.read_at(std::as_writable_bytes(std::span(header)), position_);
    if (is_zero(header)) return false;
    if (number_of(header, kChecksum) != checksum_of(header)) {
      damaged(position_ == 0 && header[0] == '\x1f'
                  ? "it is compressed; decompress it, so that its files can be read in any order"
                  : "a header has a wrong checksum");
    }
    position_ += kBlock;
    return true;
  }

  // An extended header gives the size of the next file, not of other extended headers.
  std::optional<int64_t> size_of(const Header& header) const {
    const bool is_extended =
        std::string_view("xgL").find(field_of(header, kType)[0]) != std::string_view::npos;
    return extended_size_ && !is_extended ? extended_size_ : number_of(header, kSize);
  }

  void read_member(const Header& header, int64_t size,
                   const std::function<void(const TarMember&)>& add) {
    switch (field_of(header, kType)[0]) {
      case '0':
      case '\0':
      case '7':
        add({extended_name_.empty() ? name_of(header) : extended_name_, position_, size});
        return forget_extensions();
      case '5':  // a folder
        return forget_extensions();
      case 'L':
        extended_name_ = read_text(size);
        while (extended_name_.ends_with('\0')) extended_name_.pop_back();
        return;
      case 'x':
        return read_extensions(read_text(size));
      case 'g':  // of all files; of the fields below, none can be meant for all
        return;
      default:
        damaged(fmt::format("'{}' is no regular file but perhaps a link; pack the files themselves",
                            name_of(header)));
    }
  }

  static std::string name_of(const Header& header) {
    const std::string name(text_of(header, kName));
    const std::string_view prefix = text_of(header, kPrefix);
    const bool has_prefix = text_of(header, kMagic) == "ustar" && !prefix.empty();
    return has_prefix ? std::string(prefix) + '/' + name : name;
  }

  std::string read_text(int64_t size) const {
    constexpr int64_t kMostBytes = int64_t{1} << 20;
    if (size > kMostBytes) damaged("an extended header has more than 1 MiB");
    std::string text(static_cast<size_t>(size), '\0');
    archive_.read_at(std::as_writable_bytes(std::span(text)), position_);
    return text;
  }

  // Records: "SIZE KEY=VALUE\n", where SIZE counts the whole record.
  void read_extensions(const std::string& records) {
    for (std::string_view rest = records; !rest.empty();) {
      size_t size = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
      const auto digits = static_cast<size_t>(end - rest.data());
      if (error != std::errc() || size > rest.size() || size < digits + 2) {
        damaged("an extended header is damaged");
      }
      const std::string_view record = rest.substr(digits + 1, size - digits - 2);
      const size_t equals = record.find('=');
      if (equals == std::string_view::npos) damaged("an extended header is damaged");
      extend(record.substr(0, equals), record.substr(equals + 1));
      rest.remove_prefix(size);
    }
  }

  void extend(std::string_view key, std::string_view value) {
    if (key == "path") extended_name_ = value;
    if (key != "size") return;
    int64_t size = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), size);
    if (error != std::errc() || end != value.data() + value.size() || size < 0) {
      damaged("an extended header is damaged");
    }
    extended_size_ = size;
  }

  void forget_extensions() {
    extended_name_.clear();
    extended_size_.reset();
  }

  const io::File& archive_;
  int64_t end_;
  int64_t position_ = 0;
  // Of the next file.
  std::string extended_name_;
  std::optional<int64_t> extended_size_;
};

}  // namespace

void list_tar(const io::File& archive, const std::function<void(const TarMember&)>& add) {
  TarReader(archive).list(add);
}

}  // namespace colossal::data
