// Counts the memory of a rank's program while it lives: of the tensors that this thread makes, what
// autograd keeps as activations, what collectives touch as communication.
#pragma once

#include <utility>

#include "colossal/comm/call_listener.h"
#include "colossal/comm/ledger.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/memory/saved_tensors.h"

namespace colossal::memory {

class MemoryCount final : private comm::CallListener {
 public:
  // `calls`: of the rank's world; must outlive this. `device`: whose memory, the CPU's or meta.
  // `next` hears of each call after it; null: nobody does.
  MemoryCount(comm::Ledger& calls, c10::DeviceType device, comm::CallListener* next = nullptr);
  ~MemoryCount() override;
  MemoryCount(const MemoryCount&) = delete;
  MemoryCount& operator=(const MemoryCount&) = delete;

  MemoryLedger& ledger() { return ledger_; }

 private:
  void issued(const comm::IssuedCall& call) override;
  c10::DataPtr made(c10::DataPtr memory, int64_t bytes) override {
    return counted(std::move(memory), bytes);
  }

  comm::Ledger& calls_;
  comm::CallListener* next_;
  MemoryLedger ledger_;
  MemoryScope counting_;
  SavedTensorObserver watching_;
};

}  // namespace colossal::memory
