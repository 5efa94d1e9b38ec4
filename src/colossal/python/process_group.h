// torch.distributed's process group over comm: what init_process_group("colossal") makes. Shared
// memory within a host, TCP between hosts, on the CPU.
//
// Collectives run one after the other in the order in which they are issued, which must be equal
// on all ranks; so must their tensors' sizes and types. They take any dense tensors on the CPU,
// also those that are not contiguous; reductions the types of check_reduction() (reduction.h).
// all_gather, gather, scatter, reduce_scatter and all_to_all of lists take tensors of different
// sizes.
//
// A message goes over a connection of its own for each pair of ranks, direction and tag, which is
// made with the first message: so no message waits for one of another rank or tag, or for a
// collective. Each connection has a thread and shared memory of some MiB on either side. A receive
// from any rank is refused: a rank cannot see who has sent without receiving it.
//
// Wrong arguments throw c10::ValueError when a call is issued. GroupCalls (group_calls.h) says how
// calls fail.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <tuple>
#include <vector>

#include "colossal/python/flat_tensors.h"
#include "colossal/python/group_calls.h"
#include "colossal/python/group_connection.h"

namespace colossal::python {

class ProcessGroup final : public c10d::Backend {
 public:
  using WorkPointer = GroupCalls::WorkPointer;
  using TensorLists = std::vector<Tensors>;

  // members: without hosts. Collective; throws c10::DistBackendError with the names of the ranks
  // that do not come within the timeout.
  explicit ProcessGroup(GroupMembers members);
  // Waits until all calls have ended, without Python's lock.
  ~ProcessGroup() override;

  const std::string getBackendName() const override { return "colossal"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPointer allgather(TensorLists& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override;
  WorkPointer gather(TensorLists& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) override;
  WorkPointer scatter(Tensors& outputs, TensorLists& inputs,
                      const c10d::ScatterOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, TensorLists& inputs,
                             const c10d::ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<int64_t>& output_rows, std::vector<int64_t>& input_rows,
                            const c10d::AllToAllOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& options) override;
  WorkPointer send(Tensors& tensors, int to, int tag) override;
  WorkPointer recv(Tensors& tensors, int from, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;

  // The number of collectives that this rank has issued.
  uint64_t getSequenceNumberForGroup() override { return collectives_; }
  void setSequenceNumberForGroup() override {}

  // Waits until all asynchronous calls have ended and leaves the group; later calls fail.
  void shutdown() override;
  // Makes running and later calls of all ranks fail.
  void abort() override;
  // Leaves the group when the program ends, without waiting for calls that nobody has waited for:
  // these fail, on all ranks. Afterwards no thread of this object needs Python.
  void end();

 private:
  // Issues a collective.
  WorkPointer issue(GroupCalls::Call call, GroupCalls::Body body);
  // The messages from one rank to another with one tag.
  std::shared_ptr<GroupCalls> messages(int from, int to, int tag);
  // Makes calls fail: those of the collectives, and of the messages, for which `choose` holds.
  void abort_if(bool (*choose)(const GroupCalls& calls));
  void leave();

  GroupMembers members_;
  c10::intrusive_ptr<Options> options_;
  std::atomic<uint64_t> collectives_ = 0;
  std::mutex mutex_;                        // guards the next two
  std::shared_ptr<GroupCalls> collective_;  // null after shutdown()
  std::map<std::tuple<int, int, int>, std::shared_ptr<GroupCalls>> messages_;  // from, to, tag
};

}  // namespace colossal::python
