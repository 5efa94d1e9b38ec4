// Tar archives for tests.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace colossal::data {

// The header of a member, as in POSIX.1-2001, and its content, filled up to whole blocks.
inline std::string tar_member(const std::string& name, const std::string& content, char type = '0',
                              const std::string& prefix = "") {
  std::string header(512, '\0');
  const auto put = [&](size_t offset, const std::string& text) {
    header.replace(offset, text.size(), text);
  };
  put(0, name);
  put(100, "0000644");
  put(124, fmt::format("{:011o}", content.size()));
  put(136, "00000000000");
  put(148, "        ");
  header[156] = type;
  put(257, std::string("ustar\0", 6) + "00");
  put(345, prefix);
  int sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum));
  header[154] = '\0';
  const size_t padding = (512 - content.size() % 512) % 512;
  return header + content + std::string(padding, '\0');
}

using TarMembers = std::vector<std::pair<std::string, std::string>>;

inline std::string tar_archive(const TarMembers& members) {
  std::string archive;
  for (const auto& [name, content] : members) archive += tar_member(name, content);
  return archive + std::string(1024, '\0');
}

}  // namespace colossal::data
