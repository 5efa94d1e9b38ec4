#include "colossal/report/output_file.h"

#include <fcntl.h>
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
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | how, 0666);
  if (descriptor_ < 0) raise_io_error("create", path_);
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0) size_ = status.st_size;
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(std::string_view bytes) {
  const auto whole = static_cast<int64_t>(bytes.size());
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int reason = errno;
      [[maybe_unused]] const int ignored = ::ftruncate(descriptor_, size_);  // no device can
      errno = reason;
      raise_io_error("write", path_);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  size_ += whole;
}

void OutputFile::cut_to(int64_t size) {
  if (::ftruncate(descriptor_, size) != 0) raise_io_error("shorten", path_);
  size_ = size;
}

void OutputFile::sync() {
  if (::fsync(descriptor_) != 0) raise_io_error("sync", path_);
}

void OutputFile::close() {
  if (descriptor_ < 0) return;
  if (::close(std::exchange(descriptor_, -1)) != 0) raise_io_error("close", path_);
}

void write_file_atomically(const std::filesystem::path& path, std::string_view contents) {
  const std::filesystem::path temporary = fmt::format("{}.tmp-{}", path.string(), ::getpid());
  OutputFile file(temporary);
  try {
    file.write(contents);
    file.sync();
    file.close();
    if (::rename(temporary.c_str(), path.c_str()) != 0) raise_io_error("replace", path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace colossal::report
