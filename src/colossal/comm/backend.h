// A rank's endpoint of one group, which moves the bytes. group.cpp checks the arguments and books
// the law before it calls a backend; the backend moves the data and books what it sends in the
// ledger's column `wire`. Calls of one backend never overlap, but may come from any thread. A call
// that cannot be completed throws CallFailure.
//
//   PointToPointBackend   Colossal's own algorithms over sends and receives: Gloo
//   LocalBackend          ranks as threads, which read each other's memory
//   ShmBackend            processes of one host, over shared memory
//   HierarchicalBackend   processes of several hosts: ShmBackend within a host, Gloo between hosts
//   NcclBackend           NCCL's collectives
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

// The time by which a call must be done.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds timeout)
      : time_(std::chrono::steady_clock::now() + timeout), timeout_(timeout) {}
  std::chrono::steady_clock::time_point time() const { return time_; }
  bool passed() const { return std::chrono::steady_clock::now() >= time_; }
  std::chrono::milliseconds remaining() const;  // at least 1 ms
  Deadline extended(std::chrono::milliseconds grace) const;
  // Returns "timed out after 5s: " + reason. If the deadline passed more than a second ago, the
  // message adds that this process itself did not run meanwhile.
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

  int rank() const { return membership_.rank; }  // within the group
  int size() const { return membership_.size(); }
  const Membership& membership() const { return membership_; }

  // The calls of group.h, for two ranks or more. Tensors and counts are as there; root, to, from:
  // ranks within the group. `call` describes the call to peers and in errors.
  virtual void all_reduce(const Call& call, const at::Tensor& tensor) = 0;
  virtual void reduce_scatter(const Call& call, const at::Tensor& full, const at::Tensor& part,
                              Counts counts) = 0;
  virtual void all_gather(const Call& call, const at::Tensor& full, Counts counts) = 0;
  virtual void all_to_all(const Call& call, const at::Tensor& send, Counts send_counts,
                          const at::Tensor& receive, Counts receive_counts) = 0;
  // Sends `send` to the next rank and fills `receive` from the previous rank.
  virtual void rotate(const Call& call, const at::Tensor& send, const at::Tensor& receive) = 0;
  virtual void broadcast(const Call& call, const at::Tensor& tensor, int root) = 0;
  virtual void send(const Call& call, const at::Tensor& tensor, int to) = 0;
  virtual void receive(const Call& call, const at::Tensor& tensor, int from) = 0;
  virtual void barrier(const Call& call) = 0;
  // Returns call.bytes bytes for this rank, in memory that all ranks of the group can read; null if
  // the ranks share no memory. Collective.
  virtual c10::DataPtr shared_memory(const Call& call);

  // The device on which comm must allocate its own tensors.
  virtual at::Device device() const { return at::kCPU; }
  // Called on the thread that issues a call, before the call: makes earlier work of that thread on
  // the device visible to the thread that carries out the call.
  virtual void before_call() {}
  // Lets later calls wait `grace` longer than the timeout, since a peer may be late because it
  // waits for other ranks.
  void set_grace(std::chrono::milliseconds grace) { grace_ = grace; }
  // Whether calls never wait for other ranks. Asynchronous calls then run on the issuing thread.
  virtual bool is_immediate() const { return false; }
  // Whether calls leave tensors unchanged (dry run).
  virtual bool moves_nothing() const { return false; }
  // Called after a call has failed: makes all later calls fail with `why`, and informs peers soon.
  virtual void close(const std::string& why) = 0;
  // Makes running and later calls fail, because the whole world ends. May be called from any
  // thread.
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
