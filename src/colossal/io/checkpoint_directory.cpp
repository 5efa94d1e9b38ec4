#include "colossal/io/checkpoint_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/io/hidden_sibling.h"

namespace colossal::io {
namespace {

namespace fs = std::filesystem;

bool is_replaceable(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(path, error)) &&
         (fs::exists(path / kManifestFile, error) || fs::is_empty(path, error));
}

// Returns the folders that contain the manifest's files, and last the directory itself.
std::vector<fs::path> folders_of(const fs::path& root, const Manifest& manifest) {
  std::set<fs::path> relative;
  for (const ManifestFile& file : manifest.files) {
    for (auto folder = fs::path(file.name).parent_path(); !folder.empty();
         folder = folder.parent_path()) {
      relative.insert(folder);
    }
  }
  std::vector<fs::path> folders;
  for (const fs::path& folder : relative) folders.push_back(root / folder);
  folders.push_back(root);
  return folders;
}

// Checks that the folder has exactly the manifest's files, and all their bytes. A rank's part that
// was never written, or never reported, must not become a checkpoint.
void check_covers(const fs::path& root, const Manifest& manifest) {
  const std::string coverage_error = manifest.coverage_error();
  COLOSSAL_CHECK(coverage_error.empty(), "{}: {}", root.string(), coverage_error);
  std::map<std::string, int64_t> missing;
  for (const ManifestFile& file : manifest.files) missing.emplace(file.name, file.size);
  std::error_code error;
  fs::recursive_directory_iterator entry(root, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (!fs::is_regular_file(entry->status(error))) continue;
    const std::string name = fs::relative(entry->path(), root, error).generic_string();
    // Opens the file to get its size: on a network file system, stat() alone may return an old one.
    const int64_t bytes = File::open_for_reading(entry->path()).size();
    const auto listed = missing.find(name);
    COLOSSAL_CHECK(listed != missing.end(), "{}: {} is in no rank's manifest", root.string(), name);
    COLOSSAL_CHECK(listed->second == bytes, "{} is {} bytes long, {} were written", name, bytes,
                   listed->second);
    missing.erase(listed);
  }
  if (error) raise_io_error(root, "list the folder", error.value());
  COLOSSAL_CHECK(missing.empty(), "{} has no file {}", root.string(), missing.begin()->first);
}

}  // namespace

DirectoryWriter::DirectoryWriter(fs::path path, std::optional<fs::path> final_path)
    : path_(std::move(path)), final_path_(std::move(final_path)) {}

DirectoryWriter::DirectoryWriter(DirectoryWriter&& other) noexcept
    : path_(std::move(other.path_)),
      final_path_(std::exchange(other.final_path_, std::nullopt)),
      lock_(std::move(other.lock_)),
      files_(std::move(other.files_)),
      written_(std::move(other.written_)) {}

DirectoryWriter::~DirectoryWriter() {
  discard();
}

DirectoryWriter DirectoryWriter::create(const fs::path& final_path) {
  const fs::path full = fs::absolute(final_path).lexically_normal();
  make_folders(full.parent_path());
  if (path_exists(full) && !is_replaceable(full)) {
    throw IoError(
        fmt::format("{}: exists and was not written by this program (it has no {}): "
                    "choose another name, or move it away",
                    full.string(), kManifestFile));
  }
  const fs::path temporary = hidden_sibling(full, HiddenKind::temporary);
  if (::mkdir(temporary.c_str(), 0777) != 0) raise_io_error(temporary, "create the folder", errno);
  DirectoryWriter writer(temporary, full);
  writer.lock_ = FileDescriptor(::open(temporary.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!writer.lock_) raise_io_error(temporary, "open", errno);
  // Some file systems have no locks. There, stale directories cannot be told from busy ones.
  (void)::flock(writer.lock_.get(), LOCK_EX | LOCK_NB);
  return writer;
}

DirectoryWriter DirectoryWriter::join(const fs::path& temporary_path) {
  return DirectoryWriter(temporary_path, std::nullopt);
}

void DirectoryWriter::add_file(const std::string& name, File file) {
  written_.file(name);
  files_.insert_or_assign(name, std::move(file));
}

void DirectoryWriter::create_file(const std::string& name, int64_t bytes) {
  COLOSSAL_CHECK(is_plain_relative_name(name) && name != kManifestFile, "file name {}", name);
  const fs::path path = path_ / name;
  if (path.parent_path() != path_) make_folders(path.parent_path());
  File file = File::create(path);
  file.reserve(bytes);
  add_file(name, std::move(file));
}

void DirectoryWriter::write(const std::string& name, int64_t offset,
                            std::span<const std::byte> data) {
  if (data.empty()) return;
  COLOSSAL_CHECK(is_plain_relative_name(name), "file name {}", name);
  if (!files_.contains(name)) add_file(name, File::open_for_writing(path_ / name));
  files_.at(name).write_at(data, offset);
  const auto length = static_cast<int64_t>(data.size());
  ManifestFile& record = written_.file(name);
  record.ranges.push_back({offset, length, checksum(data)});
  record.size = std::max(record.size, offset + length);
}

void DirectoryWriter::write_file(const std::string& name, std::string_view contents) {
  create_file(name, static_cast<int64_t>(contents.size()));
  write(name, 0, std::as_bytes(std::span(contents)));
}

void DirectoryWriter::sync() {
  for (auto& [name, file] : files_) file.sync();
  files_.clear();
}

void DirectoryWriter::write_manifest(const Manifest& manifest) {
  File file = File::create(path_ / kManifestFile);
  const std::string text = manifest.to_json();
  file.write_at(std::as_bytes(std::span(text)), 0);
  file.sync();
}

void DirectoryWriter::publish(Manifest manifest) {
  COLOSSAL_CHECK(final_path_, "{} was joined, not created, or is published already",
                 path_.string());
  COLOSSAL_CHECK(files_.empty(), "{}: sync() comes before publish()", path_.string());
  manifest.sort();
  check_covers(path_, manifest);
  write_manifest(manifest);
  for (const fs::path& folder : folders_of(path_, manifest)) sync_directory(folder);
  put_in_place();
}

void DirectoryWriter::put_in_place() {
  const fs::path target = *final_path_;
  const fs::path folder = target.parent_path();
  // An exchange is atomic. If the file system has none, the old checkpoint has a hidden name
  // between two renames, by which list_checkpoints() finds it.
  std::optional<fs::path> replaced;
  if (!path_exists(target)) {
    rename_path(path_, target);
  } else if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    replaced = path_;
  } else if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) {
    replaced = hidden_sibling(target, HiddenKind::replaced);
    rename_path(target, *replaced);
    try {
      rename_path(path_, target);
    } catch (const IoError&) {
      rename_path(*replaced, target);
      throw;
    }
  } else {
    raise_io_error(path_, fmt::format("exchange with {}", target.string()), errno);
  }
  final_path_.reset();
  sync_directory(folder);
  // The new checkpoint is safe. If the old one cannot be removed now, it is stale; that is no
  // error.
  std::error_code ignored;
  if (replaced) fs::remove_all(*replaced, ignored);
}

void DirectoryWriter::discard() noexcept {
  if (!std::exchange(final_path_, std::nullopt)) return;
  files_.clear();
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace colossal::io
