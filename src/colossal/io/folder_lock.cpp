#include "colossal/io/folder_lock.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <thread>

#include "colossal/base/machine.h"

namespace colossal::io {
namespace {

constexpr const char* kLockFile = ".colossal.lock";
constexpr std::chrono::milliseconds kBetweenTries{50};
constexpr int64_t kMostOfHolder = 4096;  // bytes

enum class Attempt { locked, busy, no_locks };

Attempt try_lock(const File& file) {
  while (::flock(file.descriptor(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return Attempt::busy;
    return Attempt::no_locks;
  }
  return Attempt::locked;
}

// Writes who holds the lock. That is for messages only, so a full disk does not matter.
void write_holder(File& file) {
  const std::string holder = fmt::format("process {} on host {}", ::getpid(), machine::host_name());
  try {
    file.reserve(0);  // removes what a killed process left
    file.write_at(std::as_bytes(std::span(holder)), 0);
  } catch (const IoError&) {
  }
}

std::string read_holder(const std::filesystem::path& path) {
  try {
    const std::string holder = read_file(path, kMostOfHolder);
    if (!holder.empty()) return holder;
  } catch (const IoError&) {
  }
  return "another process";
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder, std::chrono::milliseconds patience) {
  const std::filesystem::path path = folder / kLockFile;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    File file = File::open_or_create(path);
    const Attempt attempt = try_lock(file);
    // The previous holder has removed this file, so another process may lock a new one.
    if (attempt == Attempt::locked && !file.is_still_at_path()) continue;
    if (attempt != Attempt::busy) {
      holds_ = attempt == Attempt::locked;
      file_ = std::move(file);
      break;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      throw FolderInUse(fmt::format("{} is in use by {}", folder.string(), read_holder(path)));
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
  if (holds_) write_holder(*file_);
}

FolderLock::~FolderLock() {
  ::unlink(file_->path().c_str());  // before the lock is released
}

}  // namespace colossal::io
