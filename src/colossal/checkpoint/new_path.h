// Files and folders that are written once: whole, or not at all.
#pragma once

#include <filesystem>
#include <functional>

namespace colossal::checkpoint {

// Throws ConfigError if something is there already.
void require_new(const std::filesystem::path& path);

// Calls `write` with a hidden name beside `path`, and gives what it wrote the name `path`. Where
// `write` fails nothing is left.
void write_whole(const std::filesystem::path& path,
                 const std::function<void(const std::filesystem::path& temporary)>& write);

}  // namespace colossal::checkpoint
