#include "colossal/parallel/expert/row_exchange.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "colossal/base/error.h"
#include "colossal/comm/law.h"
#include "colossal/ops/upload.h"

namespace colossal::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kState = "exchange";

std::vector<int64_t> times(std::vector<int64_t> rows, int64_t width) {
  for (int64_t& count : rows) count *= width;
  return rows;
}

}  // namespace

RowsByRank exchange_counts(const std::vector<int64_t>& counts, const Partition& experts,
                           const comm::Group& group, at::Device device) {
  COLOSSAL_CHECK(std::ssize(counts) == experts.total() && experts.parts() == group.size(),
                 "rows of {} experts, of {} over {} ranks, in a group of {}", counts.size(),
                 experts.total(), experts.parts(), group.size());
  if (group.size() == 1) return {counts};
  const Range mine = experts.range(group.rank());
  const std::vector<int64_t> receive(group.size(), mine.size());
  const at::Tensor sent = ops::upload(at::tensor(counts, at::kLong), device);
  const at::Tensor received = at::empty({group.size() * mine.size()}, sent.options());
  comm::all_to_all(sent, experts.counts(), received, receive, group, comm::Reason::expert);
  if (device.is_meta()) {
    return RowsByRank(group.size(), {counts.begin() + mine.begin, counts.begin() + mine.end});
  }
  const at::Tensor on_host = comm::on_host(received, group);
  const int64_t* next = on_host.const_data_ptr<int64_t>();
  RowsByRank rows;
  for (int rank = 0; rank < group.size(); ++rank, next += mine.size()) {
    rows.emplace_back(next, next + mine.size());
  }
  return rows;
}

// Shared by Start and Finish. In backward Finish starts the opposite exchange, and Start ends it.
struct RowExchange::State : torch::CustomClassHolder {
  State(RowCounts rows, const comm::Group& ranks) : counts(std::move(rows)), group(ranks) {}

  void start(const at::Tensor& x, const std::vector<int64_t>& send,
             const std::vector<int64_t>& receive) {
    COLOSSAL_CHECK(x.size(0) == comm::total(send), "{} rows to send, there are {}",
                   comm::total(send), x.size(0));
    source = x.contiguous();
    received = at::empty({comm::total(receive), x.size(1)}, x.options());
    work = comm::all_to_all_async(source.view(-1), times(send, x.size(1)), received.view(-1),
                                  times(receive, x.size(1)), group, comm::Reason::expert);
  }
  at::Tensor finish() {
    work.wait();
    work = {};
    source.reset();
    return std::exchange(received, {});
  }

  const RowCounts counts;
  const comm::Group& group;
  comm::Work work;
  at::Tensor source, received;  // buffers of the transfer in progress

  // The empty tensor that Start returns connects Start and Finish in autograd's graph. The rows
  // themselves are in the state, so that nothing reads them before they have arrived.
  struct Start : torch::autograd::Function<Start> {
    static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                              const c10::intrusive_ptr<State>& state) {
      context->saved_data[kState] = c10::IValue::make_capsule(state);
      state->start(x, state->counts.send, state->counts.receive);
      return at::empty({0}, x.options());
    }
    static variable_list backward(AutogradContext* context, variable_list) {
      return {of(context).finish(), {}};
    }
  };

  struct Finish : torch::autograd::Function<Finish> {
    static at::Tensor forward(AutogradContext* context, const at::Tensor&,
                              const c10::intrusive_ptr<State>& state) {
      context->saved_data[kState] = c10::IValue::make_capsule(state);
      return state->finish();
    }
    static variable_list backward(AutogradContext* context, variable_list gradients) {
      State& state = of(context);
      state.start(gradients[0], state.counts.receive, state.counts.send);
      return {at::empty({0}, gradients[0].options()), {}};
    }
  };

  static State& of(AutogradContext* context) {
    return static_cast<State&>(*context->saved_data[kState].toCapsule());
  }
};

RowExchange::RowExchange(const at::Tensor& x, RowCounts counts, const comm::Group& group) {
  if (group.size() == 1) {
    tie_ = x;
    return;
  }
  const auto state = c10::make_intrusive<State>(std::move(counts), group);
  tie_ = State::Start::apply(x, state);
  state_ = state;
}

at::Tensor RowExchange::wait() {
  const at::Tensor tie = std::exchange(tie_, {});
  if (!state_) return tie;
  return State::Finish::apply(tie, c10::static_intrusive_pointer_cast<State>(state_));
}

}  // namespace colossal::parallel
