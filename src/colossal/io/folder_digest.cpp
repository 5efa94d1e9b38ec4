#include "colossal/io/folder_digest.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/io/file.h"

namespace colossal::io {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPart = 4096;
constexpr int64_t kParts =
    16;  // parts of a file that are read, evenly spaced from its first bytes to its last

// Returns the files that a model is read from, sorted by name.
std::set<fs::path> files_of_model(const fs::path& folder) {
  static const std::set<std::string> kinds{".json", ".safetensors", ".jinja", ".gguf"};
  if (!fs::is_directory(folder)) return {folder};
  std::set<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code unknown;
    if (entry->is_regular_file(unknown) && kinds.contains(entry->path().extension())) {
      files.insert(entry->path());
    }
  }
  if (error) raise_io_error(folder, "list the folder", error.value());
  return files;
}

bool is_of_chat_template(const fs::path& file) {
  return file.extension() == ".jinja" || file.stem() == "chat_template";
}

// Returns a digest of the files' names, sizes and sampled parts; "" if there are no files.
std::string digest_of(const std::vector<fs::path>& files) {
  if (files.empty()) return "";
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::vector<std::byte> bytes;
  for (const fs::path& path : files) {
    const File file = File::open_for_reading(path);
    const int64_t size = file.size();
    const std::string title = fmt::format("{} {}\n", path.filename().string(), size);
    XXH3_64bits_update(state.get(), title.data(), title.size());
    const bool is_small = size <= kPart * kParts;
    bytes.resize(is_small ? size : kPart);
    for (int64_t part = 0; part < (is_small ? 1 : kParts); ++part) {
      file.read_at(bytes, is_small ? 0 : (size - kPart) * part / (kParts - 1));
      XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
    }
  }
  return fmt::format("{:016x}", XXH3_64bits_digest(state.get()));
}

}  // namespace

FolderDigest folder_digest(const fs::path& folder) {
  std::vector<fs::path> of_model, of_template;
  for (const fs::path& file : files_of_model(folder)) {
    (is_of_chat_template(file) ? of_template : of_model).push_back(file);
  }
  return {digest_of(of_model), digest_of(of_template)};
}

}  // namespace colossal::io
