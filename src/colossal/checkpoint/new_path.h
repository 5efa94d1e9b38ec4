// Writes a file or folder completely or not at all.
#pragma once

#include <filesystem>
#include <functional>

namespace colossal::checkpoint {

// Throws ConfigError if `path` exists.
void require_new(const std::filesystem::path& path);

// Calls `write` with a hidden temporary path beside `path`, then renames it to `path`. If `write`
// throws, the temporary files are removed.
void write_whole(const std::filesystem::path& path,
                 const std::function<void(const std::filesystem::path& temporary)>& write);

}  // namespace colossal::checkpoint
