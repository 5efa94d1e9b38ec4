#include "colossal/report/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "colossal/base/error.h"

namespace colossal::report {
namespace {

[[noreturn]] void raise_io_error(const char* action, const std::filesystem::path& path) {
  const int code = errno;
  throw IoError(fmt::format("cannot {} {}: {}", action, path.string(),
                            std::generic_category().message(code)));
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path, Mode mode) : path_(std::move(path)) {
  const int how = mode == Mode::truncate ? O_TRUNC : mode == Mode::exclusive ? O_EXCL : 0;
  descriptor_ =
      FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | how, 0666));
  if (!descriptor_) raise_io_error("create", path_);
  struct stat status {};
  if (::fstat(descriptor_.get(), &status) == 0) size_ = status.st_size;
}

void OutputFile::write(std::string_view bytes) {
  const auto whole = static_cast<int64_t>(bytes.size());
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int reason = errno;
      // Drops a partial write. Devices cannot be truncated: this error is ignored.
      [[maybe_unused]] const int ignored = ::ftruncate(descriptor_.get(), size_);
      errno = reason;
      raise_io_error("write", path_);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  size_ += whole;
}

bool OutputFile::is_still_at_path() const {
  struct stat here {
  }, there{};
  return ::fstat(descriptor_.get(), &here) == 0 && ::stat(path_.c_str(), &there) == 0 &&
         here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

void OutputFile::truncate_to(int64_t size) {
  if (::ftruncate(descriptor_.get(), size) != 0) raise_io_error("shorten", path_);
  size_ = size;
}

void OutputFile::sync() {
  if (::fsync(descriptor_.get()) != 0) raise_io_error("sync", path_);
}

bool OutputFile::try_lock() {
  while (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) raise_io_error("lock", path_);
  }
  return true;
}

void OutputFile::close() {
  if (!descriptor_) return;
  if (::close(descriptor_.release()) != 0) raise_io_error("close", path_);
}

}  // namespace colossal::report
