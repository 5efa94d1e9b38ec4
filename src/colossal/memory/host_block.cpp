#include "colossal/memory/host_block.h"

#include <c10/core/DeviceGuard.h>
#include <dlfcn.h>

#include <mutex>

#include "colossal/base/log.h"
#include "colossal/io/swap_file.h"

namespace colossal::memory {
namespace {

// CUDA's runtime, which LibTorch has loaded if it supports GPUs. The functions are documented in
// cuda_runtime_api.h; they return 0 for success.
struct Runtime {
  int (*allocate)(void** memory, size_t bytes, unsigned flags) = nullptr;
  int (*release)(void* memory) = nullptr;
  int (*last_error)() = nullptr;

  Runtime() {
    const auto find = [&]<typename Function>(Function*& function, const char* name) {
      function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
    };
    find(allocate, "cudaHostAlloc");
    find(release, "cudaFreeHost");
    find(last_error, "cudaGetLastError");
  }
};

const Runtime& runtime() {
  static const Runtime runtime;
  return runtime;
}

void* pinned_memory(int64_t bytes, c10::Device device) {
  if (!runtime().allocate || !runtime().release) return nullptr;
  constexpr unsigned kPortable = 1;      // pinned for all devices of the process
  const c10::DeviceGuard guard(device);  // the runtime would wake another GPU
  void* memory = nullptr;
  const int error = runtime().allocate(&memory, static_cast<size_t>(bytes), kPortable);
  if (error == 0) return memory;
  if (runtime().last_error) runtime().last_error();  // or the next kernel would be blamed
  static std::once_flag once;
  std::call_once(once, [&] {
    log::warn("{} bytes of host memory cannot be pinned (CUDA error {}): copies to GPUs are slower",
              bytes, error);
  });
  return nullptr;
}

}  // namespace

HostBlock::HostBlock(int64_t bytes, c10::Device device) {
  // CUDA promises no whole pages.
  if (device.is_cuda()) pinned_.reset(pinned_memory(bytes + io::kSwapBlock, device));
  if (pinned_) {
    const auto begin = reinterpret_cast<uintptr_t>(pinned_.get());
    const uintptr_t after = begin % io::kSwapBlock;
    auto* const aligned = static_cast<std::byte*>(pinned_.get()) +
                          (after == 0 ? 0 : static_cast<uintptr_t>(io::kSwapBlock) - after);
    bytes_ = {aligned, static_cast<size_t>(bytes)};
  } else {
    pageable_ = std::make_unique<io::TransferMemory>(bytes);
    bytes_ = pageable_->bytes();
  }
}

void HostBlock::Release::operator()(void* memory) const {
  runtime().release(memory);
}

}  // namespace colossal::memory
