#include "colossal/parallel/expert/expert_copies.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace colossal::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kCopies = "copies";

int64_t most_of(const std::vector<int64_t>& loads) {
  return *std::ranges::max_element(loads);
}

// The number of rows that each rank computes; updated as experts are copied.
class Loads {
 public:
  Loads(const RowsByRank& rows, const Partition& experts)
      : rows_(rows), experts_(experts), loads_(rows.size(), 0), copied_(experts.total(), false) {
    for (int rank = 0; rank < experts.parts(); ++rank) {
      for (int64_t expert = experts.range(rank).begin; expert < experts.range(rank).end; ++expert) {
        for (const std::vector<int64_t>& of_rank : rows) loads_[rank] += of_rank[expert];
      }
    }
  }

  int64_t most() const { return most_of(loads_); }

  // Copies the expert of the busiest rank that has the most rows of other ranks. Returns false if
  // no expert has such rows.
  bool copy_hottest() {
    const auto busiest = static_cast<int>(std::ranges::max_element(loads_) - loads_.begin());
    int64_t hottest = -1, most_rows = 0;
    for (int64_t expert = experts_.range(busiest).begin; expert < experts_.range(busiest).end;
         ++expert) {
      const int64_t rows = copied_[expert] ? 0 : rows_of_others(expert, busiest);
      if (rows > most_rows) hottest = expert, most_rows = rows;
    }
    if (hottest < 0) return false;
    copied_[hottest] = true;
    order_.push_back(hottest);
    for (size_t rank = 0; rank < loads_.size(); ++rank) {
      if (static_cast<int>(rank) != busiest) loads_[rank] += rows_[rank][hottest];
    }
    loads_[busiest] -= most_rows;
    return true;
  }

  const std::vector<int64_t>& order() const { return order_; }

 private:
  int64_t rows_of_others(int64_t expert, int owner) const {
    int64_t rows = 0;
    for (size_t rank = 0; rank < rows_.size(); ++rank) {
      if (static_cast<int>(rank) != owner) rows += rows_[rank][expert];
    }
    return rows;
  }

  const RowsByRank& rows_;
  const Partition& experts_;
  std::vector<int64_t> loads_;  // by rank
  std::vector<bool> copied_;    // by expert
  std::vector<int64_t> order_;  // the copied experts, in the order of copying
};

}  // namespace

std::vector<int64_t> choose_copies(const RowsByRank& rows, const Partition& experts,
                                   const CopyRule& rule) {
  Loads loads(rows, experts);
  const int64_t before = loads.most();
  int64_t best_gain = 0;
  size_t best = 0;
  for (int64_t copies = 1; copies <= rule.most && loads.copy_hottest(); ++copies) {
    const int64_t gain = before - loads.most() - copies * rule.rows;
    if (gain > best_gain) best_gain = gain, best = static_cast<size_t>(copies);
  }
  std::vector<int64_t> copied(loads.order().begin(), loads.order().begin() + best);
  std::ranges::sort(copied);
  return copied;
}

RowsByRank gather_rows_of_experts(const std::vector<int64_t>& counts, const ExpertRanks& ranks,
                                  at::Device device) {
  return gather_counts(gather_counts({counts}, ranks.experts, device), ranks.parts, device);
}

// Shared by Start and Finish. In forward, Start starts the transfer and Finish ends it; in
// backward, Finish starts it and Start ends it.
struct ExpertCopies::State : torch::CustomClassHolder {
  State(at::Tensor which, std::vector<int64_t> each, const comm::Group& ranks)
      : here(std::move(which)), per_rank(std::move(each)), group(ranks) {}

  int64_t copied() const { return std::accumulate(per_rank.begin(), per_rank.end(), int64_t{0}); }
  std::vector<int64_t> elements(int64_t of_expert) const {
    std::vector<int64_t> counts = per_rank;
    for (int64_t& count : counts) count *= of_expert;
    return counts;
  }

  void gather(const at::Tensor& weight) {
    std::vector<int64_t> shape = weight.sizes().vec();
    shape[0] = copied();
    moved = at::empty(shape, weight.options());
    const int64_t before =
        std::accumulate(per_rank.begin(), per_rank.begin() + group.rank(), int64_t{0});
    moved.narrow(0, before, here.size(0)).copy_(weight.index_select(0, here));
    work = comm::all_gather_async(moved.view(-1), elements(weight[0].numel()), group,
                                  comm::Reason::expert);
  }
  void scatter(const at::Tensor& gradient) {
    source = gradient.contiguous();
    std::vector<int64_t> shape = gradient.sizes().vec();
    shape[0] = here.size(0);
    moved = at::empty(shape, gradient.options());
    work = comm::reduce_scatter_async(source.view(-1), moved.view(-1),
                                      elements(gradient.numel() / gradient.size(0)), group,
                                      comm::Reason::expert);
  }
  at::Tensor finish() {
    work.wait();
    work = {};
    source.reset();
    return std::exchange(moved, {});
  }

  // indices of this rank's copied experts; int64, on the device of the weights
  const at::Tensor here;
  const std::vector<int64_t> per_rank;
  const comm::Group& group;
  comm::Work work;
  at::Tensor source, moved;           // buffers of the transfer in progress
  at::Tensor of_own_rows, of_copies;  // gradients, stored until both have arrived

  struct Start : torch::autograd::Function<Start> {
    static variable_list forward(AutogradContext* context, const at::Tensor& weight,
                                 const c10::intrusive_ptr<State>& state) {
      context->saved_data[kCopies] = c10::IValue::make_capsule(state);
      context->set_materialize_grads(false);
      state->gather(weight);
      return {weight.view_as(weight), at::empty({0}, weight.options())};
    }
    // Gradients of weights may be deferred. Then the two gradients arrive in separate backward
    // passes, and the first is stored until the second arrives: the weight gets one gradient, their
    // sum.
    static variable_list backward(AutogradContext* context, variable_list gradients) {
      State& state = of(context);
      if (gradients[0].defined()) state.of_own_rows = gradients[0];
      if (gradients[1].defined()) state.of_copies = state.finish();
      if (!state.of_own_rows.defined() || !state.of_copies.defined()) return {{}, {}};
      const at::Tensor of_copies = std::exchange(state.of_copies, {});
      const at::Tensor gradient = std::exchange(state.of_own_rows, {});
      if (of_copies.size(0) > 0) gradient.index_add_(0, state.here, of_copies);
      return {gradient, {}};
    }
  };

  struct Finish : torch::autograd::Function<Finish> {
    static at::Tensor forward(AutogradContext* context, const at::Tensor&,
                              const c10::intrusive_ptr<State>& state) {
      context->saved_data[kCopies] = c10::IValue::make_capsule(state);
      context->set_materialize_grads(false);
      return state->finish();
    }
    static variable_list backward(AutogradContext* context, variable_list gradients) {
      if (!gradients[0].defined()) return {{}, {}};
      of(context).scatter(gradients[0]);
      return {at::empty({0}, gradients[0].options()), {}};
    }
  };

  static State& of(AutogradContext* context) {
    return static_cast<State&>(*context->saved_data[kCopies].toCapsule());
  }
};

ExpertCopies::ExpertCopies(const std::vector<int64_t>& copied, const Partition& experts,
                           const comm::Group& group)
    : group_(group) {
  for (int rank = 0; rank < experts.parts(); ++rank) {
    const Range run = experts.range(rank);
    int64_t count = 0;
    for (const int64_t expert : copied) {
      if (expert < run.begin || expert >= run.end) continue;
      ++count;
      if (rank == group.rank()) here_.push_back(expert - run.begin);
    }
    per_rank_.push_back(count);
  }
}

at::Tensor ExpertCopies::send(const at::Tensor& weight) {
  const auto state = c10::make_intrusive<State>(at::tensor(here_, at::kLong).to(weight.device()),
                                                per_rank_, group_);
  const variable_list both = State::Start::apply(weight, state);
  sent_.push_back({state, both[1]});
  return both[0];
}

std::vector<at::Tensor> ExpertCopies::wait() {
  std::vector<at::Tensor> copies;
  for (const Sent& sent : std::exchange(sent_, {})) {
    copies.push_back(
        State::Finish::apply(sent.tie, c10::static_intrusive_pointer_cast<State>(sent.state)));
  }
  return copies;
}

}  // namespace colossal::parallel
