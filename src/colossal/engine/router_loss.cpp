#include "colossal/engine/router_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

namespace colossal {
namespace {

using Over = nn::RouterLosses::Over;

void add_over(const comm::Group& group, const at::Tensor& x) {
  comm::all_reduce(x.view(-1), group, comm::Reason::expert);
}

class LossOfRecords {
 public:
  LossOfRecords(const nn::RouterLosses& losses, const ParallelContext& context)
      : losses_(losses), context_(context) {}

  at::Tensor operator()(const at::Tensor& records, const ops::PendingSum& labels,
                        const nn::StepContext& step) const {
    const int64_t sums = (records.size(1) - 1) / 2;
    const auto by_expert = [&](int64_t begin) {
      return records.narrow(1, begin, sums).unflatten(1, {step.tokens().batch, -1});
    };
    // Labels and tokens of the micro-batch, over all replicas.
    const ops::PendingSum tokens = step.tokens().batch * step.tokens().sequence;
    const at::Tensor totals =
        at::stack({labels.on(context_.device()), tokens.on(context_.device())});
    add_over(context_.data_group(), totals);
    const at::Tensor all_tokens = totals[1].to(records.scalar_type());
    at::Tensor loss = records.select(1, 2 * sums).sum() * losses_.z;
    if (losses_.balance != 0) {
      loss = loss + balance(by_expert(0), by_expert(sums).detach(), all_tokens) * losses_.balance;
    }
    return loss * (totals[0].to(records.scalar_type()) / all_tokens);
  }

 private:
  // probabilities, chosen: [layers, sequences, experts], of this rank's tokens. Returns this rank's
  // term of the loss, multiplied by the number of tokens.
  at::Tensor balance(const at::Tensor& probabilities, const at::Tensor& chosen,
                     const at::Tensor& all_tokens) const {
    const auto experts = static_cast<double>(chosen.size(2));
    if (losses_.over == Over::sequence) {
      const at::Tensor counts = chosen.contiguous();
      add_over(context_.group(Axis::sp), counts);
      add_over(context_.group(Axis::tp), counts);
      return (shares(counts) * probabilities).sum() * experts;
    }
    const at::Tensor counts = chosen.sum(1, /*keepdim=*/true);
    add_over(context_.stage_group(), counts);
    if (losses_.over == Over::micro_batch) return (shares(counts) * probabilities).sum() * experts;
    const auto layers = static_cast<double>(counts.size(0));
    const at::Tensor often = counts.sum(0) / (all_tokens * layers);  // [1, experts]
    return (often * probabilities.sum(0)).sum() * (experts / layers);
  }

  // Divides each count by the sum of its row.
  static at::Tensor shares(const at::Tensor& counts) {
    return counts / counts.sum(-1, /*keepdim=*/true).clamp_min(1);
  }

  nn::RouterLosses losses_;
  const ParallelContext& context_;
};

}  // namespace

at::Tensor append_router_records(const at::Tensor& before, const nn::RouterRecords& records) {
  std::vector<at::Tensor> rows;
  for (const nn::RouterRecord& layer : records.layers) {
    rows.push_back(at::cat(
        {layer.probabilities.flatten(), layer.chosen.flatten(), layer.squared_log_sums.view(1)}));
  }
  if (rows.empty()) return before;
  const at::Tensor here = at::stack(rows);
  return before.defined() ? at::cat({before, here}) : here;
}

RouterLoss make_router_loss(const nn::RouterLosses& losses, const ParallelContext& context) {
  if (!losses.any()) return nullptr;
  return LossOfRecords(losses, context);
}

}  // namespace colossal
