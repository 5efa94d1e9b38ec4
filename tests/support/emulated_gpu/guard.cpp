// What LibTorch asks of a device: its streams, its events, and which are current.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <utility>

#include "tests/support/emulated_gpu/allocators.h"
#include "tests/support/emulated_gpu/current.h"
#include "tests/support/emulated_gpu/host_waits.h"
#include "tests/support/emulated_gpu/settings.h"
#include "tests/support/emulated_gpu/stream.h"

namespace colossal::emulated_gpu {
namespace {

thread_local int device_of_thread = 0;
thread_local int64_t streams_of_thread[kMaxDevices] = {};

c10::Device gpu(int index) {
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

struct Event {
  MarkPointer mark;
};

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = gpu(device_of_thread);
    if (device.has_index()) setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return gpu(device_of_thread); }
  void setDevice(c10::Device device) const override { set_current_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    device_of_thread = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(settings().devices);
  }

  c10::Stream getStream(c10::Device device) const override {
    return current_stream(index_of(device));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, gpu(index_of(device)), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high*/) const override {
    static std::atomic<int64_t> next{0};
    return c10::Stream(c10::Stream::UNSAFE, gpu(index_of(device)), 1 + next++ % kStreamsOfPool);
  }
  c10::Stream getNewStream(c10::Device device, int /*priority*/) const override {
    return getStreamFromGlobalPool(device, false);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = current_stream(stream.device_index());
    set_current_stream(stream);
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return &stream_of(stream);
  }
  bool queryStream(const c10::Stream& stream) const override { return stream_of(stream).is_idle(); }
  void synchronizeStream(const c10::Stream& stream) const override {
    const HostWait wait("stream");
    stream_of(stream).synchronize();
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    const HostWait wait("device");
    synchronize_device(device);
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    if (!*event) *event = new Event;
    static_cast<Event*>(*event)->mark = stream_of(stream).record();
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (const MarkPointer mark = mark_of(event)) stream_of(stream).wait_for(mark);
  }
  bool queryEvent(void* event) const override {
    const MarkPointer mark = mark_of(event);
    return !mark || host_asks(mark);
  }
  void synchronizeEvent(void* event) const override {
    const HostWait wait("event");
    if (const MarkPointer mark = mark_of(event)) host_waits_for(mark);
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<Event*>(event);
  }
  void recordDataPtrOnStream(const c10::DataPtr& block, const c10::Stream& stream) const override {
    record_use(block.get(), stream);
  }

 private:
  static int index_of(c10::Device device) {
    return device.has_index() ? device.index() : device_of_thread;
  }
  static MarkPointer mark_of(void* event) {
    return event ? static_cast<Event*>(event)->mark : nullptr;
  }
};

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

}  // namespace

int current_device() {
  return device_of_thread;
}

void set_current_device(int device) {
  TORCH_CHECK(device >= 0 && device < settings().devices,
              "CUDA error: invalid device ordinal: emulated GPU ", device, " of ",
              settings().devices);
  device_of_thread = device;
}

int64_t current_stream_id(int device) {
  return streams_of_thread[device];
}

c10::Stream current_stream(int device) {
  return c10::Stream(c10::Stream::UNSAFE, gpu(device), streams_of_thread[device]);
}

void set_current_stream(const c10::Stream& stream) {
  streams_of_thread[stream.device_index()] = stream.id();
}

Stream& stream_of(const c10::Stream& stream) {
  return emulated_gpu::stream(stream.device_index(), stream.id());
}

void launch_on_current(Kernel kernel) {
  stream(device_of_thread, streams_of_thread[device_of_thread]).launch(std::move(kernel));
}

}  // namespace colossal::emulated_gpu
