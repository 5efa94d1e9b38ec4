#include "tests/support/emulated_gpu/memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "tests/support/emulated_gpu/mistakes.h"
#include "tests/support/emulated_gpu/settings.h"

namespace colossal::emulated_gpu {
namespace {

constexpr size_t kPinnedMemory = size_t{16} << 30;

std::array<std::atomic<Memory*>, kMaxDevices> of_devices{};
std::atomic<Memory*> pinned{nullptr};

// Host code has touched an address that it may not touch.
void on_fault(int, siginfo_t* info, void* context) {
  const bool writes = (static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
  const int device = device_of(info->si_addr);
  Memory* const of_host = pinned.load();
  const char* what = "a bad address";
  if (device >= 0) {
    what = "device memory";
  } else if (of_host && of_host->has(info->si_addr)) {
    what = "pinned memory that a copy still uses";
  }
  std::array<char, 200> text{};
  const int size =
      std::snprintf(text.data(), text.size(), "emulated GPU, process %d: host code %s %s at %p\n",
                    getpid(), writes ? "wrote" : "read", what, info->si_addr);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), size);
  print_callers();
  _exit(kExitOfMistake);
}

void watch_faults() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
  });
}

struct PageUse {
  int reads = 0;
  int writes = 0;
  int protection() const {
    if (writes > 0) return PROT_NONE;
    return reads > 0 ? PROT_READ : PROT_READ | PROT_WRITE;
  }
};
std::mutex pages_mutex;
std::map<uintptr_t, PageUse>& pages_in_use() {
  static auto* const all = new std::map<uintptr_t, PageUse>;
  return *all;
}

void change_pages(const void* begin, size_t size, bool written, int by) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const std::lock_guard lock(pages_mutex);
  for (uintptr_t page = address / kPage * kPage; page < address + size; page += kPage) {
    PageUse& use = pages_in_use()[page];
    const int before = use.protection();
    (written ? use.writes : use.reads) += by;
    const int after = use.protection();
    if (after != before) mprotect(reinterpret_cast<void*>(page), kPage, after);
    if (use.reads == 0 && use.writes == 0) pages_in_use().erase(page);
  }
}

}  // namespace

Memory::Memory(size_t size, bool readable) : size_(size) {
  watch_faults();
  const int file = memfd_create("emulated_gpu", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) std::abort();
  const auto map = [&](int protection) {
    void* const at = mmap(nullptr, size, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (at == MAP_FAILED) std::abort();
    return static_cast<char*>(at);
  };
  begin_ = map(readable ? PROT_READ | PROT_WRITE : PROT_NONE);
  of_kernels_ = map(PROT_READ | PROT_WRITE);
  close(file);
}

char* Memory::take(size_t size) {
  if (taken_ + size > size_) return nullptr;
  char* const taken = begin_ + taken_;
  taken_ += size;
  return taken;
}

Memory& device_memory(int device) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!of_devices[device]) of_devices[device] = new Memory(settings().memory, /*readable=*/false);
  return *of_devices[device];
}

int device_of(const void* address) {
  for (int device = 0; device < kMaxDevices; ++device) {
    const Memory* const memory = of_devices[device].load();
    if (memory && memory->has(address)) return device;
  }
  return -1;
}

Memory& pinned_memory() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!pinned) pinned = new Memory(kPinnedMemory, /*readable=*/true);
  return *pinned;
}

void* for_kernels(const void* address) {
  if (const int device = device_of(address); device >= 0) {
    return of_devices[device].load()->for_kernels(address);
  }
  const Memory* const of_host = pinned.load();
  if (of_host && of_host->has(address)) return of_host->for_kernels(address);
  return const_cast<void*>(address);
}

void lock_pages(const void* begin, size_t size, bool written) {
  change_pages(begin, size, written, 1);
}

void unlock_pages(const void* begin, size_t size, bool written) {
  change_pages(begin, size, written, -1);
}

}  // namespace colossal::emulated_gpu
