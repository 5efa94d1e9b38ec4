#include "colossal/memory/host_block.h"

#include <c10/core/DeviceGuard.h>
#include <dlfcn.h>

#include <mutex>

#include "colossal/base/log.h"

namespace colossal::memory {
namespace {

// CUDA's runtime, which LibTorch has loaded if it supports GPUs. The functions are documented in
// cuda_runtime_api.h; they return 0 for success.
struct Runtime {
  int (*allocate)(void** memory, size_t bytes, unsigned flags) = nullptr;
  int (*release)(void* memory) = nullptr;

  Runtime() {
    const auto find = [&]<typename Function>(Function*& function, const char* name) {
      function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
    };
    find(allocate, "cudaHostAlloc");
    find(release, "cudaFreeHost");
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
  static std::once_flag once;
  std::call_once(once, [&] {
    log::warn("{} bytes of host memory cannot be pinned (CUDA error {}): copies to GPUs are slower",
              bytes, error);
  });
  return nullptr;
}

}  // namespace

HostBlock::HostBlock(int64_t bytes, c10::Device device) {
  if (device.is_cuda()) pinned_.reset(pinned_memory(bytes, device));
  if (pinned_) {
    bytes_ = {static_cast<std::byte*>(pinned_.get()), static_cast<size_t>(bytes)};
  } else {
    pageable_ = std::make_unique<io::TransferMemory>(bytes);
    bytes_ = pageable_->bytes();
  }
}

void HostBlock::Release::operator()(void* memory) const {
  runtime().release(memory);
}

}  // namespace colossal::memory
