#include "colossal/checkpoint/new_path.h"

#include <fmt/format.h>

#include "colossal/base/error.h"
#include "colossal/io/file.h"
#include "colossal/io/hidden_sibling.h"

namespace colossal::checkpoint {

void require_new(const std::filesystem::path& path) {
  if (io::path_exists(path)) {
    throw ConfigError(
        fmt::format("{} exists already: give another name, or remove it", path.string()));
  }
}

void write_whole(const std::filesystem::path& path,
                 const std::function<void(const std::filesystem::path& temporary)>& write) {
  const std::filesystem::path temporary = io::hidden_sibling(path, io::HiddenKind::temporary);
  try {
    write(temporary);
    io::rename_path(temporary, path);
  } catch (...) {
    io::remove_tree(temporary);
    throw;
  }
}

}  // namespace colossal::checkpoint
