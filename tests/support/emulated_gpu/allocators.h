// The allocators of device memory and of pinned memory.
#pragma once

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

namespace colossal::emulated_gpu {

// Allocates on the current device, for its current stream. A block that is freed is used again at
// once on the same stream only; its contents are overwritten on this stream.
c10::DeviceAllocator& device_allocator();
// The block may be used by kernels of this stream.
void record_use(const void* block, const c10::Stream& stream);

at::HostAllocator& pinned_allocator();
bool is_pinned(const void* address);

}  // namespace colossal::emulated_gpu
