// Writes a new file or folder completely or not at all, for commands that convert or quantize a
// model.
#pragma once

#include <filesystem>
#include <functional>

namespace colossal::checkpoint {

// Throws ConfigError if there is something at `path`. Commands call this before their work, since
// write_whole() does not check it.
void require_new(const std::filesystem::path& path);

// Calls write(temporary), which must create a file or folder at `temporary`, a hidden path in the
// folder of `path`. Then renames `temporary` to `path`, where it replaces a file or an empty
// folder. If anything throws, removes `temporary` and rethrows.
void write_whole(const std::filesystem::path& path,
                 const std::function<void(const std::filesystem::path& temporary)>& write);

}  // namespace colossal::checkpoint
