#include "colossal/io/hidden_sibling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string_view>

namespace colossal::io {
namespace {

constexpr size_t kDigits = 16;

constexpr std::string_view marker(HiddenKind kind) {
  return kind == HiddenKind::temporary ? ".tmp-" : ".old-";
}

}  // namespace

std::filesystem::path hidden_sibling(const std::filesystem::path& path, HiddenKind kind) {
  std::random_device random;
  const uint64_t unique = (uint64_t{random()} << 32) | random();
  const auto full = std::filesystem::absolute(path);
  return full.parent_path() /
         fmt::format(".{}{}{:016x}", full.filename().string(), marker(kind), unique);
}

std::optional<HiddenName> parse_hidden_name(const std::string& file_name) {
  for (const HiddenKind kind : {HiddenKind::temporary, HiddenKind::replaced}) {
    const size_t suffix = marker(kind).size() + kDigits;
    if (file_name.size() <= 1 + suffix || file_name.front() != '.') continue;
    const std::string_view tail = std::string_view(file_name).substr(file_name.size() - suffix);
    const std::string_view digits = tail.substr(marker(kind).size());
    const bool hexadecimal = std::all_of(digits.begin(), digits.end(), [](char digit) {
      return (digit >= '0' && digit <= '9') || (digit >= 'a' && digit <= 'f');
    });
    if (tail.starts_with(marker(kind)) && hexadecimal) {
      return HiddenName{file_name.substr(1, file_name.size() - 1 - suffix), kind};
    }
  }
  return std::nullopt;
}

}  // namespace colossal::io
