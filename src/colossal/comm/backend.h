// The interface through which a group's collectives (group.h) move data. One Backend object
// connects one rank to the other ranks of one group. group.cpp checks the arguments of a call and
// books the law bytes, then calls the backend. The backend moves the data and books the bytes that
// this rank sends in the ledger's column `wire` (ledger.h).
//
// The implementations:
//   GlooBackend           processes over TCP: PointToPointBackend's algorithms over Gloo's messages
//   LocalBackend          ranks that are threads of one process and read each other's memory
//   ShmBackend            processes of one host, over shared memory
//   HierarchicalBackend   processes of several hosts: ShmBackend within a host, Gloo between hosts
//   NcclBackend           GPUs, over NCCL
//   DryBackend            one rank of a dry run, which moves no data
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "colossal/comm/call.h"
#include "colossal/comm/group.h"
#include "colossal/comm/law.h"
#include "colossal/comm/ledger.h"

namespace colossal::comm {

// The point in time by which a call must be done: `timeout` after the Deadline was made.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds timeout)
      : time_(std::chrono::steady_clock::now() + timeout), timeout_(timeout) {}
  std::chrono::steady_clock::time_point time() const { return time_; }
  bool passed() const { return std::chrono::steady_clock::now() >= time_; }
  // Returns the time left, at least 1 ms even if the deadline has passed.
  std::chrono::milliseconds remaining() const;
  // Returns a deadline that is later by `grace`.
  Deadline extended(std::chrono::milliseconds grace) const;
  // Returns the failure "timed out after 5s: " + reason, where 5s is the constructor's `timeout`.
  // If the deadline passed a second or more ago, the message adds that this process itself was
  // stopped or suspended meanwhile.
  CallFailure failure(const std::string& reason) const;

 private:
  std::chrono::steady_clock::time_point time_;
  std::chrono::milliseconds timeout_;
};

// Returns the address of the tensor's first element.
inline std::byte* memory_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

class Backend {
 public:
  // timeout: time limit of each call.
  Backend(Membership membership, std::shared_ptr<Ledger> ledger, std::chrono::milliseconds timeout);
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  int rank() const { return membership_.rank; }  // within the group
  int size() const { return membership_.size(); }
  const Membership& membership() const { return membership_; }

  // The functions from all_reduce() to shared_memory() are called one at a time, on any thread:
  // a group has a WorkQueue, unless is_stream_ordered(). They return when results may be read and
  // all tensors reused; if is_stream_ordered(), they only launch the work. They throw CallFailure
  // if they cannot be completed. Groups of one rank have no backend.
  //
  // Tensors are contiguous. Counts are numbers of elements, one per rank, in rank order. root, to,
  // from: ranks within the group. call: describes the call; peers compare it with their own call.

  // tensor <- sum of the ranks' tensors.
  virtual void all_reduce(const Call& call, const at::Tensor& tensor) = 0;
  // part <- sum over the ranks of this rank's part of `full`. counts: sizes of the parts of `full`.
  virtual void reduce_scatter(const Call& call, const at::Tensor& full, const at::Tensor& part,
                              Counts counts) = 0;
  // Fills the parts of `full` of all other ranks. This rank's part is already in its place. counts:
  // sizes of the parts.
  virtual void all_gather(const Call& call, const at::Tensor& full, Counts counts) = 0;
  // Sends part i of `send` to rank i. Fills part i of `receive` from rank i.
  virtual void all_to_all(const Call& call, const at::Tensor& send, Counts send_counts,
                          const at::Tensor& receive, Counts receive_counts) = 0;
  // Sends `send` to the next rank and fills `receive` from the previous rank.
  virtual void rotate(const Call& call, const at::Tensor& send, const at::Tensor& receive) = 0;
  // tensor <- the tensor of rank `root`.
  virtual void broadcast(const Call& call, const at::Tensor& tensor, int root) = 0;
  // Sends `tensor` to rank `to`.
  virtual void send(const Call& call, const at::Tensor& tensor, int to) = 0;
  // Fills `tensor` from rank `from`.
  virtual void receive(const Call& call, const at::Tensor& tensor, int from) = 0;
  // Returns when all ranks have called it.
  virtual void barrier(const Call& call) = 0;
  // Returns memory of `call.bytes` bytes, in which shared_empty() (group.h) puts a tensor of this
  // rank. The other ranks can read this memory, so later collectives of the group need not copy the
  // tensor for them. Returns null if the ranks share no memory, which is the default. Collective.
  virtual c10::DataPtr shared_memory(const Call& call);

  // The device of the tensors that calls take.
  virtual at::Device device() const { return at::kCPU; }
  // Called before each call except a barrier or shared_memory(), on the thread that issues the
  // call, unless is_stream_ordered(). If another thread carries out the call and
  // is_stream_ordered() is false, it waits for earlier work of the issuing thread on the GPU. On
  // the CPU, does nothing.
  virtual void before_call() {}
  // Whether calls are launched on a GPU by the thread that issues them, and what this thread
  // launches later, or earlier, waits for them, or they for it, on the GPU only.
  virtual bool is_stream_ordered() const { return false; }
  // If is_stream_ordered(): returns the Work of the last call.
  virtual Work launched() const { return {}; }
  // Throws CommError if a call of this rank, in any group of its world, is known to have failed. If
  // is_stream_ordered(), such calls end on the GPU as others do.
  virtual void check_results() {}
  // Likewise, if a call of any rank has failed.
  virtual void check_results_of_all() {}
  // Makes later calls wait up to `grace` longer than the timeout, until the next set_grace().
  // HierarchicalBackend uses it where peers may be late because they wait for other ranks.
  void set_grace(std::chrono::milliseconds grace) { grace_ = grace; }
  // Whether calls never wait for other ranks (dry run). Asynchronous calls then run at once on the
  // issuing thread.
  virtual bool is_immediate() const { return false; }
  // Whether calls leave all tensors unchanged (dry run).
  virtual bool moves_nothing() const { return false; }
  // Makes all later calls of this rank in this group fail, and informs the peers soon. Called after
  // a call has failed. why: the reason that later errors give.
  virtual void close(const std::string& why) = 0;
  // Like close(), but running calls fail, too. World::abort() calls it, from any thread. The
  // default is for backends whose close() also makes running calls fail.
  virtual void abort(const std::string& why) { close(why); }

 protected:
  // Returns the deadline of a call that begins now.
  Deadline new_deadline() const { return Deadline(timeout_).extended(grace_); }
  // Adds `bytes`, which this rank has sent in `call`, to the ledger's column `wire`.
  void book_wire(const Call& call, int64_t bytes);
  Ledger& ledger() { return *ledger_; }

 private:
  Membership membership_;
  std::shared_ptr<Ledger> ledger_;
  std::chrono::milliseconds timeout_;
  std::chrono::milliseconds grace_{0};
};

}  // namespace colossal::comm
