#include "colossal/cluster/memory_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <system_error>

#include "colossal/cluster/local_launcher.h"

namespace colossal::cluster {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMemory = "/dev/shm";
constexpr std::string_view kPrefix = "colossal-elastic-";

// Opens and locks a folder of this user. Returns none if there is no such folder, or if another
// process holds the lock.
FileDescriptor lock_folder(const fs::path& folder) {
  FileDescriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  const bool mine = opened && fstat(opened.get(), &status) == 0 && status.st_uid == geteuid();
  if (!mine || flock(opened.get(), LOCK_EX | LOCK_NB) != 0) opened.close();
  return opened;
}

void remove_abandoned() {
  std::error_code failure;
  for (fs::directory_iterator entry(kMemory, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (!entry->path().filename().string().starts_with(kPrefix)) continue;
    std::error_code ignored;
    if (const FileDescriptor lock = lock_folder(entry->path())) {
      fs::remove_all(entry->path(), ignored);
    }
  }
}

}  // namespace

MemoryFolder::MemoryFolder() {
  remove_abandoned();
  constexpr int kAttempts = 10;  // another launcher may remove the folder before it is locked
  for (int i = 0; i < kAttempts; ++i) {
    const fs::path folder = fs::path(kMemory) / (std::string(kPrefix) + make_job_name());
    if (mkdir(folder.c_str(), S_IRWXU) != 0) return;
    lock_ = lock_folder(folder);
    std::error_code ignored;
    if (lock_ && fs::exists(folder, ignored)) {
      path_ = folder;
      return;
    }
  }
}

MemoryFolder::~MemoryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace colossal::cluster
