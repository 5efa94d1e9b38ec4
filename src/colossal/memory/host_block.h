// A block of host memory from which and to which GPUs and drives transfer fastest.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "colossal/io/transfer_memory.h"

namespace colossal::memory {

class HostBlock {
 public:
  // Allocates `bytes` bytes with arbitrary contents, from a multiple of io::kSwapBlock on. device:
  // the one to which they are transferred. For a GPU they are pinned, so that it copies them itself
  // while it computes; if that is refused, a warning is logged once, and the driver copies them in
  // between. Otherwise they are an io::TransferMemory. Throws std::bad_alloc.
  HostBlock(int64_t bytes, c10::Device device);

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  struct Release {
    void operator()(void* memory) const;
  };
  std::unique_ptr<void, Release> pinned_;         // null if it is not pinned
  std::unique_ptr<io::TransferMemory> pageable_;  // null if it is
  std::span<std::byte> bytes_;
};

}  // namespace colossal::memory
