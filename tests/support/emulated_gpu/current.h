// The current device and the current stream of each device, of this thread.
#pragma once

#include <c10/core/Stream.h>

#include <cstdint>

#include "tests/support/emulated_gpu/stream.h"

namespace colossal::emulated_gpu {

int current_device();
// Throws c10::Error if there is no such device.
void set_current_device(int device);
int64_t current_stream_id(int device);
c10::Stream current_stream(int device);
void set_current_stream(const c10::Stream& stream);

Stream& stream_of(const c10::Stream& stream);
// Launches a kernel on the current stream of the current device.
void launch_on_current(Kernel kernel);

}  // namespace colossal::emulated_gpu
