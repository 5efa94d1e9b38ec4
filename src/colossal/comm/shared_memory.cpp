#include "colossal/comm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <utility>

#include "colossal/base/error.h"

namespace colossal::comm {
namespace {

std::string link_target(const char* path) {
  std::array<char, PATH_MAX> target{};
  const ssize_t length = readlink(path, target.data(), target.size() - 1);
  return length < 0 ? "" : std::string(target.data(), length);
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

SharedMemory::SharedMemory(int descriptor, int64_t bytes) : descriptor_(descriptor), bytes_(bytes) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    close(descriptor);
    throw CommError(
        fmt::format("cannot map {} bytes of shared memory: {}", bytes, std::strerror(error)));
  }
  data_ = static_cast<std::byte*>(mapped);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(other.bytes_),
      data_(std::exchange(other.data_, nullptr)) {}

SharedMemory::~SharedMemory() {
  seal();
  if (data_) munmap(data_, bytes_);
}

void SharedMemory::seal() {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
}

SharedMemory SharedMemory::create(int64_t bytes) {
  const int descriptor = memfd_create("colossal", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, bytes) != 0) {
    const int error = errno;
    if (descriptor >= 0) close(descriptor);
    throw CommError(
        fmt::format("cannot allocate {} bytes of shared memory: {}", bytes, std::strerror(error)));
  }
  return SharedMemory(descriptor, bytes);
}

SharedMemory SharedMemory::open(const std::string& address) {
  const int descriptor = ::open(address.c_str(), O_RDWR | O_CLOEXEC);
  struct stat status {};
  if (descriptor < 0 || fstat(descriptor, &status) != 0) {
    const int error = errno;
    if (descriptor >= 0) close(descriptor);
    throw CommError(
        fmt::format("cannot open shared memory {}: {}; backend \"gloo\" works without it", address,
                    std::strerror(error)));
  }
  return SharedMemory(descriptor, status.st_size);
}

std::string SharedMemory::address() const {
  return fmt::format("/proc/{}/fd/{}", getpid(), descriptor_);
}

// Processes of one machine that are in different process, network or user namespaces count as
// different hosts. In different process namespaces they cannot see each other. Network namespaces
// simulate several hosts on one machine.
std::string host_identity() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  std::string identity =
      std::string(name.data()) + "/" + first_line("/proc/sys/kernel/random/boot_id");
  for (const char* space : {"/proc/self/ns/pid", "/proc/self/ns/net", "/proc/self/ns/user"}) {
    identity += "/" + link_target(space);
  }
  return fmt::format("{}/{}", identity, getuid());
}

}  // namespace colossal::comm
