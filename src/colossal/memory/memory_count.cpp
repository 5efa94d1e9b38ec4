#include "colossal/memory/memory_count.h"

namespace colossal::memory {

MemoryCount::MemoryCount(comm::Ledger& calls, c10::DeviceType device, comm::CallListener* next)
    : calls_(calls),
      next_(next),
      counting_(ledger_, device),
      watching_([this](const at::Tensor& t) {
        if (t.has_storage()) ledger_.mark(t.storage(), MemoryKind::activations);
      }) {
  install_allocators();
  calls_.set_listener(this);
}

MemoryCount::~MemoryCount() {
  calls_.set_listener(nullptr);
}

void MemoryCount::issued(const comm::IssuedCall& call) {
  for (const at::Tensor& buffer : call.buffers) {
    ledger_.mark(buffer.storage(), MemoryKind::communication);
  }
  if (next_) next_->issued(call);
}

}  // namespace colossal::memory
