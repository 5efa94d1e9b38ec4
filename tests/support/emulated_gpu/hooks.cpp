// What LibTorch asks of CUDA as a whole.
#include <ATen/detail/CUDAHooksInterface.h>

#include <algorithm>

#include "tests/support/emulated_gpu/allocators.h"
#include "tests/support/emulated_gpu/current.h"
#include "tests/support/emulated_gpu/memory.h"
#include "tests/support/emulated_gpu/settings.h"
#include "tests/support/emulated_gpu/stream.h"

namespace at {

// LibTorch finds the hooks by the name of this class.
struct CUDAHooks final : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs /*arguments*/) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex /*device*/) const override { return true; }
  DeviceIndex deviceCount() const override {
    return static_cast<DeviceIndex>(colossal::emulated_gpu::settings().devices);
  }
  int getNumGPUs() const override { return colossal::emulated_gpu::settings().devices; }
  DeviceIndex current_device() const override { return getCurrentDevice(); }
  DeviceIndex getCurrentDevice() const override {
    return static_cast<DeviceIndex>(colossal::emulated_gpu::current_device());
  }
  void setCurrentDevice(DeviceIndex device) const override {
    colossal::emulated_gpu::set_current_device(device);
  }
  DeviceIndex exchangeDevice(DeviceIndex device) const override {
    const DeviceIndex before = getCurrentDevice();
    setCurrentDevice(device);
    return before;
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override {
    return device < 0 ? getCurrentDevice() : exchangeDevice(device);
  }
  Allocator* getPinnedMemoryAllocator() const override {
    return &colossal::emulated_gpu::pinned_allocator();
  }
  bool isPinnedPtr(const void* address) const override {
    return colossal::emulated_gpu::is_pinned(address);
  }
  Device getDeviceFromPtr(void* address) const override {
    return {kCUDA,
            static_cast<DeviceIndex>(std::max(0, colossal::emulated_gpu::device_of(address)))};
  }
  Allocator* getCUDADeviceAllocator() const override {
    return &colossal::emulated_gpu::device_allocator();
  }
  void deviceSynchronize(DeviceIndex device) const override {
    colossal::emulated_gpu::synchronize_device(device);
  }
};
REGISTER_CUDA_HOOKS(CUDAHooks)

}  // namespace at
