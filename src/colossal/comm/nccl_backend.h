// The calls of one group over NCCL. They are launched in a stream of the group, in the order and on
// the thread in which they are issued, behind what the thread's current stream has been given
// before; nothing waits on the host.
//
// NCCL may hold a kernel on the GPU until all ranks have launched theirs. So that the GPUs of all
// ranks always have room for the next call that each of them waits for, all ranks launch the calls
// of all groups in one order, from one thread; and group.cpp launches a receive when it is waited
// for.
#pragma once

#include <c10/core/Stream.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "colossal/comm/backend.h"
#include "colossal/comm/nccl_call.h"
#include "colossal/comm/nccl_communicator.h"
#include "colossal/comm/nccl_watch.h"

namespace colossal::comm {

class NcclBackend final : public Backend {
 public:
  // name: the group's, equal on all its ranks and different from that of all other groups. id: of
  // the group's communicator, equal on all ranks. Collective. Throws CallFailure.
  NcclBackend(Membership membership, std::shared_ptr<Ledger> ledger,
              std::chrono::milliseconds timeout, std::string name, at::Device device,
              const nccl::UniqueId& id, std::shared_ptr<NcclWatch> watch);
  // Waits for calls that have not ended.
  ~NcclBackend() override;
  // Makes NCCL connect the ranks now and not at their first calls, for which one rank would wait on
  // the host while another rank waits for something else. Collective. Throws CallFailure.
  void connect();

  at::Device device() const override { return device_; }
  bool is_stream_ordered() const override { return true; }
  Work launched() const override { return Work(last_); }
  void check_results() override { watch_->check(); }
  void check_results_of_all() override { watch_->check_all_ranks(); }
  void close(const std::string& why) override;
  void abort(const std::string& why) override;

  void all_reduce(const Call& call, const at::Tensor& tensor) override;
  void reduce_scatter(const Call& call, const at::Tensor& full, const at::Tensor& part,
                      Counts counts) override;
  void all_gather(const Call& call, const at::Tensor& full, Counts counts) override;
  void all_to_all(const Call& call, const at::Tensor& send, Counts send_counts,
                  const at::Tensor& receive, Counts receive_counts) override;
  void rotate(const Call& call, const at::Tensor& send, const at::Tensor& receive) override;
  void broadcast(const Call& call, const at::Tensor& tensor, int root) override;
  void send(const Call& call, const at::Tensor& tensor, int to) override;
  void receive(const Call& call, const at::Tensor& tensor, int from) override;
  void barrier(const Call& call) override;

  // The rest is for NcclWatch, on any thread.

  const std::string& name() const { return name_; }
  // Whether NCCL says that a call has failed, and ends the calls of this rank if it does.
  bool has_error() { return !communicator_.error().empty(); }
  void look_for_errors();
  // Ends the calls if one has taken too long, and counts those to which the GPU has come.
  void look_at_calls();
  // Adds how far this rank has come, by name() and channel.
  void add_progress(std::map<std::string, NcclProgress>& progress);
  // Records why the calls fail, and returns whether nothing was recorded before: the member with
  // this global rank has failed; this rank has aborted; calls of another group have failed.
  bool record_loss(int global_rank, const std::string& why);
  bool record_abort(const std::string& why);
  bool record_failure_elsewhere(const std::string& message);
  // See NcclCommunicator::release().
  nccl::Communicator release_communicator() { return communicator_.release(); }
  // Returns the message of the failure that has ended the calls; empty: none.
  std::string failure() const { return failure_->message(); }

 private:
  struct InFlight {
    std::shared_ptr<NcclCall> call;
    std::optional<Deadline> deadline;  // since the GPU has come to the call
  };
  using Calls = NcclCommunicator::Calls;

  // Makes `put` enqueue a call's work in stream_, which is current in it.
  void launch(const Call& call, std::vector<at::Tensor> tensors, NcclCall::Channel channel,
              const std::function<void()>& put);
  // Puts NCCL calls into stream_, together.
  void enqueue(const Calls& calls);
  void exchange(const at::Tensor& send, Counts send_counts, const at::Tensor& receive,
                Counts receive_counts);
  void sum_received(const at::Tensor& full, const at::Tensor& received, const at::Tensor& part,
                    Counts counts);
  void forget_ended_calls();
  // Ends all calls of this rank, because this one has failed (NcclFailure::record()).
  void fail(int64_t call, const std::string& reason, const std::string& message);
  bool record_for_all(const std::string& reason);
  // Returns the first call in flight, or null.
  std::shared_ptr<NcclCall> first_in_flight();

  std::string name_;
  at::Device device_;
  std::shared_ptr<NcclWatch> watch_;
  c10::Stream stream_;   // not the stream that computes, so that both run at once
  nccl::Stream handle_;  // of stream_
  std::shared_ptr<NcclFailure> failure_ = std::make_shared<NcclFailure>();
  std::shared_ptr<NcclCall> last_;

  std::mutex mutex_;  // guards in_flight_ and progress_
  std::deque<InFlight> in_flight_;
  std::map<std::string, NcclProgress> progress_;  // by channel
  int64_t launched_ = 0;

  NcclCommunicator communicator_;
};

}  // namespace colossal::comm
