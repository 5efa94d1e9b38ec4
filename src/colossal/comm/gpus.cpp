#include "colossal/comm/gpus.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <array>
#include <optional>
#include <utility>

namespace colossal::comm {
namespace {

// The driver, which programs find without CUDA's headers. cuda.h documents the functions; they
// return 0 for success.
class Driver {
 public:
  Driver() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    const auto find = [&]<typename Function>(Function*& function, const char* name) {
      function = reinterpret_cast<Function*>(dlsym(library, name));
    };
    int (*init)(unsigned flags) = nullptr;
    find(init, "cuInit");
    find(get_, "cuDeviceGet");
    find(get_name_, "cuDeviceGetName");
    find(total_memory_, "cuDeviceTotalMem_v2");
    found_ = init && init(0) == 0 && get_ && get_name_ && total_memory_;
  }

  std::optional<Gpu> describe(int index) const {
    int device = 0;
    std::array<char, 256> name{};
    size_t memory = 0;
    if (!found_ || get_(&device, index) != 0 || total_memory_(&memory, device) != 0 ||
        get_name_(name.data(), static_cast<int>(name.size()), device) != 0) {
      return std::nullopt;
    }
    return Gpu{name.data(), static_cast<int64_t>(memory)};
  }

 private:
  bool found_ = false;
  int (*get_)(int* device, int index) = nullptr;
  int (*get_name_)(char* name, int size, int device) = nullptr;
  int (*total_memory_)(size_t* bytes, int device) = nullptr;
};

}  // namespace

int num_gpus() {
  if (!c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return 0;
  return c10::impl::getDeviceGuardImpl(c10::kCUDA)->deviceCount();
}

std::vector<Gpu> gpus() {
  static const Driver driver;
  std::vector<Gpu> found;
  for (int index = 0; index < num_gpus(); ++index) {
    std::optional<Gpu> gpu = driver.describe(index);
    if (!gpu) {
      auto* const allocator = c10::getDeviceAllocator(c10::kCUDA);
      gpu = Gpu{"GPU", static_cast<int64_t>(
                           allocator->getMemoryInfo(static_cast<c10::DeviceIndex>(index)).second)};
    }
    found.push_back(std::move(*gpu));
  }
  return found;
}

}  // namespace colossal::comm
