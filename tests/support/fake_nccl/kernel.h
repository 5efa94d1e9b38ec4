// What a call, or a group of calls, of the fake NCCL does on the emulated GPU: messages to and from
// other ranks, all at once, and then what is computed of them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "tests/support/emulated_gpu/stream.h"
#include "tests/support/fake_nccl/communicator.h"

namespace colossal::fake_nccl {

// What the ranks of a call must agree on; else their kernels never end.
struct Header {
  int operation = 0;
  int type = 0;
  size_t bytes = 0;
  bool operator==(const Header&) const = default;
};

struct Message {
  int peer = 0;
  std::byte* memory = nullptr;  // where kernels read and write
  Header header;
};

struct Kernel {
  std::vector<Message> sends, receives;
  std::vector<emulated_gpu::Bytes> reads, writes;
  std::function<void()> finish = [] {};

  // Makes the other kernel a part of this one.
  void add(Kernel other);
};

// Launches the kernel. It runs as soon as the device has room for it, and ends when all messages
// are through, or at once, with whatever is there, when the communicator is aborted.
void launch(Kernel kernel, const std::shared_ptr<Communicator>& communicator,
            emulated_gpu::Stream& stream);

// How many kernels that wait for other ranks a device has room for.
void set_resident_kernels(int count);

}  // namespace colossal::fake_nccl
