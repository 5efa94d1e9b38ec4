// A rank's endpoint of one group, which moves the bytes. Arguments were checked and the law booked
// in group.cpp; a backend moves the data and books what it sends in the ledger's wire column. Calls
// come one at a time, from any thread. A call that cannot be completed throws CallFailure.
//
//   PointToPointBackend   our own algorithms over sends and receives: Gloo
//   LocalBackend          ranks as threads, which read each other's memory
//   ShmBackend            processes of one host, over memory that they share
//   HierarchicalBackend   processes of several hosts: the last within each, Gloo between them
//   NcclBackend           the library's collectives
//   DryBackend            moves nothing
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "colossal/comm/call.h"
#include "colossal/comm/law.h"
#include "colossal/comm/ledger.h"

namespace colossal::comm {

// When a call must be done.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds timeout)
      : time_(std::chrono::steady_clock::now() + timeout), timeout_(timeout) {}
  std::chrono::steady_clock::time_point time() const { return time_; }
  bool passed() const { return std::chrono::steady_clock::now() >= time_; }
  std::chrono::milliseconds remaining() const;  // at least one
  Deadline extended(std::chrono::milliseconds grace) const;
  // "timed out after 5s: rank 3 did not arrive". Noticed much too late, it says that this process
  // did not run meanwhile.
  CallFailure failure(const std::string& reason) const;

 private:
  std::chrono::steady_clock::time_point time_;
  std::chrono::milliseconds timeout_;
};

inline std::byte* memory_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

class Backend {
 public:
  Backend(Membership membership, std::shared_ptr<Ledger> ledger, std::chrono::milliseconds timeout);
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  int rank() const { return membership_.rank; }
  int size() const { return membership_.size(); }
  const Membership& membership() const { return membership_; }

  virtual void all_reduce(const Call& call, const at::Tensor& tensor) = 0;
  virtual void reduce_scatter(const Call& call, const at::Tensor& full, const at::Tensor& part,
                              Counts counts) = 0;
  virtual void all_gather(const Call& call, const at::Tensor& full, Counts counts) = 0;
  virtual void all_to_all(const Call& call, const at::Tensor& send, Counts send_counts,
                          const at::Tensor& receive, Counts receive_counts) = 0;
  // `send` goes to the next rank, `receive` comes from the previous one.
  virtual void rotate(const Call& call, const at::Tensor& send, const at::Tensor& receive) = 0;
  virtual void broadcast(const Call& call, const at::Tensor& tensor, int root) = 0;
  virtual void send(const Call& call, const at::Tensor& tensor, int to) = 0;
  virtual void receive(const Call& call, const at::Tensor& tensor, int from) = 0;
  virtual void barrier(const Call& call) = 0;
  // Makes memory of call.bytes for each rank that all ranks can read; null if they share none.
  virtual c10::DataPtr shared_memory(const Call& call);

  // Where tensors that comm itself makes must live.
  virtual at::Device device() const { return at::kCPU; }
  // On the thread that issues a call: makes what it has computed so far readable for whichever
  // thread carries the call out.
  virtual void before_call() {}
  // From now on calls wait `grace` longer than the timeout, because a peer may be waiting itself.
  void set_grace(std::chrono::milliseconds grace) { grace_ = grace; }
  // Calls wait for nobody: asynchronous ones too are carried out where they are issued.
  virtual bool is_immediate() const { return false; }
  // A dry run: tensors stay as they are.
  virtual bool moves_nothing() const { return false; }
  // After a call failed: no later one can succeed, and peers should learn of it soon.
  virtual void close(const std::string& why) = 0;
  // Ends calls under way and to come, because the whole world ends. May be called from any thread.
  virtual void abort(const std::string& why) { close(why); }

 protected:
  Deadline new_deadline() const { return Deadline(timeout_).extended(grace_); }
  void book_wire(const Call& call, int64_t bytes);
  Ledger& ledger() { return *ledger_; }

 private:
  Membership membership_;
  std::shared_ptr<Ledger> ledger_;
  std::chrono::milliseconds timeout_;
  std::chrono::milliseconds grace_{0};
};

}  // namespace colossal::comm
