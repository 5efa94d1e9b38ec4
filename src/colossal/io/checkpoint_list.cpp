// Existing checkpoints: naming, listing, verifying, removing.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <memory>

#include "colossal/base/error.h"
#include "colossal/base/file_descriptor.h"
#include "colossal/io/checkpoint_directory.h"
#include "colossal/io/hidden_sibling.h"

namespace colossal::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr int64_t kVerifyBlock = int64_t{1} << 20;
constexpr int64_t kSmallFile = int64_t{1}
                               << 20;  // up to this size, Verify::sizes checks every byte

std::optional<int64_t> parse_checkpoint_name(const std::string& name) {
  int64_t step = 0;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto parsed =
      std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  // Accepts only names that checkpoint_name() makes, not "step-1", "step-+00001" or
  // "step-000001.bak".
  if (parsed.ec != std::errc() || step < 0 || name != checkpoint_name(step)) return std::nullopt;
  return step;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> paths;
  fs::directory_iterator entry(folder, error);
  if (error == std::errc::no_such_file_or_directory) return paths;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    paths.push_back(entry->path());
  }
  if (error) raise_io_error(folder, "list the folder", error.value());
  return paths;
}

bool held_by_writer(const fs::path& path) {
  const FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder && ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

uint64_t checksum_of_range(const File& file, const ManifestRange& range,
                           std::vector<std::byte>& buffer) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (int64_t done = 0; done < range.length;) {
    const int64_t length = std::min(range.length - done, kVerifyBlock);
    const auto block = std::span(buffer).first(static_cast<size_t>(length));
    file.read_at(block, range.offset + done);
    XXH3_64bits_update(state.get(), block.data(), block.size());
    done += length;
  }
  return XXH3_64bits_digest(state.get());
}

void verify_file(const fs::path& folder, const ManifestFile& expected, Verify how,
                 std::vector<Damage>& found) {
  const File file = File::open_inside(folder, expected.name, OutsideLinks::refuse);
  const std::string path = file.path().string();
  if (file.size() != expected.size) {
    found.push_back({expected.name, std::min(file.size(), expected.size),
                     fmt::format("{}: is {} bytes long, but {} were written", path, file.size(),
                                 expected.size)});
    return;
  }
  if (how == Verify::sizes && expected.size > kSmallFile) return;
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(kVerifyBlock, expected.size)));
  for (const ManifestRange& range : expected.ranges) {
    const uint64_t checksum = checksum_of_range(file, range, buffer);
    if (checksum == range.xxh3) continue;
    found.push_back({expected.name, range.offset,
                     fmt::format("{}: the {} bytes at offset {} are not those that were written "
                                 "(checksum {:016x} instead of {:016x})",
                                 path, range.length, range.offset, checksum, range.xxh3)});
  }
}

}  // namespace

std::string checkpoint_name(int64_t step) {
  return fmt::format("{}{:06}", kPrefix, step);
}

std::vector<Damage> verify_directory(const fs::path& path, Verify how) {
  std::vector<Damage> found;
  Manifest manifest;
  try {
    const fs::path file = path / kManifestFile;
    manifest = Manifest::parse(read_file(file), file.string());
    const std::string coverage_error = manifest.coverage_error();
    if (!coverage_error.empty())
      throw IoError(fmt::format("{}: {}", file.string(), coverage_error));
  } catch (const IoError& error) {
    return {{kManifestFile, 0, error.what()}};
  }
  for (const ManifestFile& file : manifest.files) {
    try {
      verify_file(path, file, how, found);
    } catch (const IoError& error) {
      found.push_back({file.name, 0, error.what()});
    }
  }
  return found;
}

std::vector<Checkpoint> list_checkpoints(const fs::path& folder) {
  std::map<int64_t, fs::path> checkpoints;
  for (const fs::path& path : entries_of(folder)) {
    const std::string name = path.filename().string();
    const auto hidden = parse_hidden_name(name);
    const bool replaced = hidden && hidden->kind == HiddenKind::replaced;
    const auto step = parse_checkpoint_name(replaced ? hidden->name : name);
    std::error_code error;
    if (!step || !fs::is_directory(path, error)) continue;
    if (replaced) {
      checkpoints.try_emplace(*step, path);
    } else {
      checkpoints.insert_or_assign(*step, path);
    }
  }
  std::vector<Checkpoint> list;
  for (const auto& [step, path] : checkpoints) list.push_back({step, path});
  return list;
}

void remove_stale_temporaries(const fs::path& folder) {
  for (const fs::path& path : entries_of(folder)) {
    const auto hidden = parse_hidden_name(path.filename().string());
    if (!hidden || held_by_writer(path)) continue;
    const fs::path original = folder / hidden->name;
    if (hidden->kind == HiddenKind::replaced && !path_exists(original)) {
      rename_path(path, original);
    } else {
      remove_tree(path);
    }
  }
}

std::vector<fs::path> prune(const fs::path& folder, int64_t keep, const std::set<int64_t>& also,
                            const std::function<bool(const Checkpoint&)>& counts) {
  COLOSSAL_CHECK(keep >= 1, "keep {}", keep);
  std::vector<Checkpoint> checkpoints = list_checkpoints(folder);
  std::erase_if(checkpoints, [&](const Checkpoint& checkpoint) { return !counts(checkpoint); });
  checkpoints.resize(std::max<int64_t>(std::ssize(checkpoints) - keep, 0));
  std::vector<fs::path> removed;
  for (const Checkpoint& checkpoint : checkpoints) {
    if (also.contains(checkpoint.step)) continue;
    const fs::path doomed =
        hidden_sibling(folder / checkpoint_name(checkpoint.step), HiddenKind::temporary);
    rename_path(checkpoint.path, doomed);
    sync_directory(folder);
    remove_tree(doomed);
    removed.push_back(checkpoint.path);
  }
  return removed;
}

fs::path set_aside(const fs::path& checkpoint) {
  fs::path aside = checkpoint.string() + ".aside";
  for (int number = 2; path_exists(aside); ++number) {
    aside = fmt::format("{}.aside-{}", checkpoint.string(), number);
  }
  rename_path(checkpoint, aside);
  sync_directory(checkpoint.parent_path());
  return aside;
}

}  // namespace colossal::io
