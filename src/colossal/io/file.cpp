#include "colossal/io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <system_error>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/file_descriptor.h"
#include "colossal/io/hidden_sibling.h"
#include "colossal/io/hub_cache.h"

namespace colossal::io {
namespace {

// Repeats a system call while signals interrupt it.
template <typename Call>
auto uninterrupted(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

int open_directory(const std::filesystem::path& path) {
  const int descriptor =
      uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (descriptor < 0) raise_io_error(path, "open the directory", errno);
  return descriptor;
}

// Opens `name` part by part and follows no link at all. Returns -1 and sets errno to EXDEV if
// `name` leaves the directory, or to ELOOP if one of its parts is a link.
int open_without_links(int directory, const std::filesystem::path& name, int flags) {
  FileDescriptor folder;
  const auto at = [&] { return folder ? folder.get() : directory; };
  for (auto part = name.begin(); part != name.end(); ++part) {
    if (*part == ".." || *part == "/") {
      errno = EXDEV;
      return -1;
    }
    struct stat status {};
    if (::fstatat(at(), part->c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISLNK(status.st_mode)) {
      errno = ELOOP;
      return -1;
    }
    const bool is_last = std::next(part) == name.end();
    const int how = is_last ? flags : O_PATH | O_DIRECTORY | O_CLOEXEC;
    const int opened =
        uninterrupted([&] { return ::openat(at(), part->c_str(), how | O_NOFOLLOW); });
    if (is_last || opened < 0) return opened;
    folder = FileDescriptor(opened);
  }
  errno = ENOENT;  // an empty name
  return -1;
}

int open_beneath(int directory, const std::string& name, int flags) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const auto opened = uninterrupted([&] {
    return static_cast<int>(::syscall(SYS_openat2, directory, name.c_str(), &how, sizeof how));
  });
  // Linux before 5.6 and some containers have no openat2().
  if (opened < 0 && (errno == ENOSYS || errno == EPERM)) {
    return open_without_links(directory, name, flags);
  }
  return opened;
}

// With O_NONBLOCK, opening a named pipe does not wait for a writer. Regular files ignore it.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

// Opens a file of a snapshot in the cache of the Hugging Face Hub, whose links may lead to anywhere
// in the folder `repository`. Returns -1 and sets errno as open_beneath() does.
int open_in_snapshot(const std::filesystem::path& repository,
                     const std::filesystem::path& directory, const std::string& name) {
  const FileDescriptor within(open_directory(repository));
  std::error_code error;
  const auto relative = std::filesystem::canonical(directory).lexically_relative(repository) / name;
  const int opened = open_beneath(within.get(), relative.string(), kReadFlags);
  if (opened >= 0 || errno != ELOOP) return opened;
  // A link that the kernel cannot check: it may name a file in the folder blobs, nothing else.
  const auto link = std::filesystem::read_symlink(repository / relative, error);
  const auto target = (relative.parent_path() / link).lexically_normal();
  if (error || link.is_absolute() || target.parent_path() != "blobs") {
    errno = ELOOP;
    return -1;
  }
  return open_beneath(within.get(), target.string(), kReadFlags);
}

}  // namespace

void raise_io_error(const std::filesystem::path& path, std::string_view operation, int error) {
  throw IoError(fmt::format("{}: cannot {}: {}", path.string(), operation,
                            std::generic_category().message(error)));
}

File::File(int descriptor, std::filesystem::path path)
    : descriptor_(descriptor), path_(std::move(path)) {
  struct stat status {};
  if (::fstat(descriptor_.get(), &status) != 0) raise_io_error(path_, "read the size", errno);
  if (!S_ISREG(status.st_mode)) {
    throw IoError(fmt::format("{}: is not a regular file", path_.string()));
  }
}

File File::open(const std::filesystem::path& path, int flags, const char* operation) {
  const int descriptor = uninterrupted([&] { return ::open(path.c_str(), flags, 0666); });
  if (descriptor < 0) raise_io_error(path, operation, errno);
  return File(descriptor, path);
}

File File::open_for_reading(const std::filesystem::path& path) {
  return open(path, kReadFlags, "open");
}

File File::open_for_writing(const std::filesystem::path& path) {
  return open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK, "open for writing");
}

File File::create(const std::filesystem::path& path) {
  return open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, "create");
}

File File::open_or_create(const std::filesystem::path& path) {
  return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, "open or create");
}

File File::create_unnamed(const std::filesystem::path& directory) {
  int descriptor = uninterrupted(
      [&] { return ::open(directory.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600); });
  if (descriptor < 0) {  // not every file system supports O_TMPFILE
    std::string name = (directory / ".colossal-XXXXXX").string();
    descriptor = ::mkostemp(name.data(), O_CLOEXEC);
    if (descriptor < 0) raise_io_error(directory, "create a file in it", errno);
    ::unlink(name.c_str());
  }
  return File(descriptor, directory / "(unnamed file)");
}

File File::open_inside(const std::filesystem::path& directory, const std::string& name,
                       OutsideLinks links) {
  const auto path = directory / name;
  if (links == OutsideLinks::follow) return open_for_reading(path);
  const FileDescriptor folder(open_directory(directory));
  int descriptor = open_beneath(folder.get(), name, kReadFlags);
  if (descriptor < 0 && (errno == EXDEV || errno == ELOOP)) {
    const int error = errno;
    const auto repository = hub_repository_of(directory);
    errno = error;
    if (repository) descriptor = open_in_snapshot(*repository, directory, name);
  }
  if (descriptor < 0 && (errno == EXDEV || errno == ELOOP)) {
    throw IoError(fmt::format("{}: {}, which is refused: copy the file into the folder",
                              path.string(),
                              errno == EXDEV ? "leaves its folder by a link or \"..\""
                                             : "has a link in its name that cannot be checked"));
  }
  if (descriptor < 0) raise_io_error(path, "open", errno);
  return File(descriptor, path);
}

int64_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_.get(), &status) != 0) raise_io_error(path_, "read the size", errno);
  return status.st_size;
}

bool File::is_still_at_path() const {
  struct stat opened {};
  struct stat named {};
  return ::fstat(descriptor_.get(), &opened) == 0 && ::stat(path_.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

void File::read_at(std::span<std::byte> destination, int64_t offset) const {
  size_t done = 0;
  while (done < destination.size()) {
    const auto position = offset + static_cast<int64_t>(done);
    const size_t wanted = destination.size() - done;
    const ssize_t read = uninterrupted(
        [&] { return ::pread(descriptor_.get(), destination.data() + done, wanted, position); });
    if (read < 0) {
      raise_io_error(path_, fmt::format("read {} bytes at offset {}", wanted, position), errno);
    }
    if (read == 0) {
      throw IoError(
          fmt::format("{}: ends at offset {}, {} bytes before the end of what was to be "
                      "read: the file was cut short",
                      path_.string(), position, wanted));
    }
    done += static_cast<size_t>(read);
  }
}

void File::write_at(std::span<const std::byte> source, int64_t offset) {
  size_t done = 0;
  while (done < source.size()) {
    const auto position = offset + static_cast<int64_t>(done);
    const size_t wanted = source.size() - done;
    const ssize_t written = uninterrupted(
        [&] { return ::pwrite(descriptor_.get(), source.data() + done, wanted, position); });
    // A device that writes nothing and reports no error is full.
    if (written <= 0) {
      raise_io_error(path_, fmt::format("write {} bytes at offset {}", wanted, position),
                     written < 0 ? errno : ENOSPC);
    }
    done += static_cast<size_t>(written);
  }
}

void File::reserve(int64_t bytes) {
  if (bytes > 0 &&
      uninterrupted([&] { return ::fallocate(descriptor_.get(), 0, 0, bytes); }) != 0 &&
      errno != EOPNOTSUPP && errno != ENOSYS) {
    raise_io_error(path_, fmt::format("reserve {} bytes", bytes), errno);
  }
  if (uninterrupted([&] { return ::ftruncate(descriptor_.get(), bytes); }) != 0) {
    raise_io_error(path_, fmt::format("extend to {} bytes", bytes), errno);
  }
}

void File::sync() {
  if (uninterrupted([&] { return ::fsync(descriptor_.get()); }) != 0) {
    raise_io_error(path_, "bring to the disk (fsync)", errno);
  }
}

std::string read_file(const std::filesystem::path& path, int64_t limit) {
  const File file = File::open_for_reading(path);
  const int64_t bytes = file.size();
  if (bytes > limit) {
    throw IoError(fmt::format("{}: is {} bytes long; at most {} are read for such a file",
                              path.string(), bytes, limit));
  }
  std::string contents(static_cast<size_t>(bytes), '\0');
  file.read_at(std::as_writable_bytes(std::span(contents)), 0);
  return contents;
}

void write_file_atomically(const std::filesystem::path& path, std::string_view contents) {
  const auto temporary = hidden_sibling(path, HiddenKind::temporary);
  try {
    File file = File::create(temporary);
    file.write_at(std::as_bytes(std::span(contents)), 0);
    file.sync();
    rename_path(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(temporary.parent_path());
}

bool path_exists(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  raise_io_error(path, "look", errno);
}

void make_folders(const std::filesystem::path& path) {
  const auto full = std::filesystem::absolute(path);
  if (path_exists(full)) return;
  make_folders(full.parent_path());
  if (::mkdir(full.c_str(), 0777) != 0 && errno != EEXIST) {
    raise_io_error(full, "create the folder", errno);
  }
  sync_directory(full.parent_path());
}

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    raise_io_error(from, fmt::format("rename to {}", to.string()), errno);
  }
}

void remove_tree(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) raise_io_error(path, "remove", error.value());
}

void sync_directory(const std::filesystem::path& path) {
  const FileDescriptor directory(open_directory(path));
  if (uninterrupted([&] { return ::fsync(directory.get()); }) != 0) {
    raise_io_error(path, "bring the directory to the disk (fsync)", errno);
  }
}

}  // namespace colossal::io
