#include "colossal/serve/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/comm/group.h"
#include "colossal/layout/partition.h"
#include "colossal/ops/loss/linear_cross_entropy.h"
#include "colossal/parallel/sequence/positions.h"
#include "colossal/serve/stages.h"

namespace colossal::serve {
namespace {

// Consecutive rows of the corpus, all of the same length.
struct Rows {
  int64_t begin = 0;  // index, in the corpus, of the first token
  int64_t count = 0;
  int64_t length = 0;
  int64_t tokens() const { return count * length; }
};

void validate(const data::Corpus& corpus, const EvaluateOptions& options) {
  if (options.sequence_length < 1) {
    throw ConfigError(
        fmt::format("--sequence-length={}: must be 1 or more", options.sequence_length));
  }
  if (options.batch < 1)
    throw ConfigError(fmt::format("--batch={}: must be 1 or more", options.batch));
  if (corpus.num_tokens() < 2) {
    throw ConfigError(fmt::format(
        "{}: the text has only one token, so there is no token to predict; give more text",
        corpus.setting()));
  }
}

// This rank's part of a batch: its positions of all rows of its replica.
struct Batch {
  at::Tensor inputs, labels;  // [rows, positions on this rank] int64
  nn::StepContext context;
};

class Evaluator {
 public:
  Evaluator(models::LanguageModel& model, const data::Corpus& corpus,
            const EvaluateOptions& options)
      : model_(model),
        corpus_(corpus),
        options_(options),
        ranks_(options.ranks),
        strategy_(ranks_ ? ranks_->strategy() : Strategy{}),
        stages_(ranks_) {}

  Evaluation run(const std::function<void(const Evaluation&)>& progress) {
    const int64_t targets = corpus_.num_tokens() - (options_.masks ? 0 : 1);
    Evaluation done;
    while (done.read < targets) {
      const int64_t begin = done.read;
      double sum = 0;
      for (int pass = 0; pass < passes_of_round() && done.read < targets; ++pass) {
        const Rows rows = next_rows(done.read, targets);
        sum += loss_sum(rows);
        done.read += rows.tokens();
        done.tokens += count_predicted(rows);
      }
      done.loss_sum += over_ranks(sum);
      if (!std::isfinite(done.loss_sum)) {
        throw Error(fmt::format("the loss of tokens {} to {} of the text is not finite",
                                format_count(begin + 1), format_count(done.read)));
      }
      if (progress) progress(done);
    }
    if (done.tokens == 0) {
      throw ConfigError(fmt::format(
          "{}: none of the {} tokens is masked, so there is none to predict; give more text",
          corpus_.setting(), format_count(done.read)));
    }
    return done;
  }

 private:
  // All ranks wait for each other after each round. With pipeline parallelism, a round has several
  // passes, so that the time in which the pipeline fills and drains matters less.
  int passes_of_round() const {
    constexpr int kFillings = 4;
    return strategy_.pp == 1 ? 1 : kFillings * strategy_.pp;
  }

  // Returns the next rows, which are then divided among the replicas. A last row may be shorter.
  Rows next_rows(int64_t begin, int64_t targets) const {
    const int64_t left = targets - begin;
    const int64_t whole = left / options_.sequence_length;
    if (whole == 0) return {begin, 1, left};
    return {begin, std::min(options_.batch * strategy_.dp, whole), options_.sequence_length};
  }

  Rows rows_of_replica(const Rows& rows) const {
    if (!ranks_) return rows;
    const Range here = Partition(rows.count, strategy_.dp).range(ranks_->coordinate(Axis::dp));
    return {rows.begin + here.begin * rows.length, here.size(), rows.length};
  }

  // rows: [rows, length]. Pads with `fill` to at least one row, and to at least one position for
  // each rank along sp: all ranks must take part in each pass, because they may gather weights or
  // share experts. Padding comes after the tokens, which do not attend to it.
  at::Tensor fill_up(const at::Tensor& rows, int64_t fill) const {
    const int64_t count = std::max<int64_t>(rows.size(0), 1);
    const int64_t length = std::max<int64_t>(rows.size(1), strategy_.sp);
    if (count == rows.size(0) && length == rows.size(1)) return rows;
    const at::Tensor filled = at::full({count, length}, fill, at::kLong);
    filled.narrow(0, 0, rows.size(0)).narrow(1, 0, rows.size(1)).copy_(rows);
    return filled;
  }

  // Returns the rows, with masked inputs; the labels are the tokens that are masked.
  data::Batch read_masked(const Rows& rows) const {
    const at::Tensor tokens = at::empty({rows.count, rows.length}, at::kLong);
    corpus_.read(rows.begin,
                 {tokens.mutable_data_ptr<int64_t>(), static_cast<size_t>(tokens.numel())});
    data::Batch batch{.inputs = tokens, .labels = at::empty_like(tokens), .sample_ids = {}};
    for (int64_t row = 0; row < rows.count; ++row) {
      batch.sample_ids.push_back(rows.begin / options_.sequence_length + row);
    }
    data::mask_tokens(batch, *options_.masks);
    return batch;
  }

  // Returns the number of tokens that all replicas predict in these rows.
  int64_t count_predicted(const Rows& rows) const {
    if (!options_.masks) return rows.tokens();
    return read_masked(rows).labels.ne(ops::kIgnoredLabel).sum().item<int64_t>();
  }

  Batch read(const Rows& rows) const {
    if (options_.masks) {
      const data::Batch masked = read_masked(rows);
      return here({.inputs = fill_up(masked.inputs, 0),
                   .labels = fill_up(masked.labels, ops::kIgnoredLabel),
                   .context = {}},
                  rows.length);
    }
    const at::Tensor tokens = at::empty({rows.tokens() + 1}, at::kLong);
    corpus_.read(rows.begin,
                 {tokens.mutable_data_ptr<int64_t>(), static_cast<size_t>(tokens.numel())});
    const auto from = [&](int64_t first, int64_t fill) {
      const std::vector<int64_t> sizes{rows.count, rows.length};
      return fill_up(tokens.narrow(0, first, rows.tokens()).view(sizes), fill);
    };
    return here({.inputs = from(0, 0), .labels = from(1, ops::kIgnoredLabel), .context = {}},
                rows.length);
  }

  // Returns this rank's positions of all rows, and their context. num_tokens: number of tokens of a
  // row without padding.
  Batch here(const Batch& whole, int64_t num_tokens) const {
    const int64_t length = whole.inputs.size(1);
    const at::Tensor positions =
        ranks_ ? parallel::positions_here(length, *ranks_) : at::arange(length, at::kLong);
    Batch part{
        .inputs = whole.inputs.index_select(1, positions).to(options_.device),
        .labels = whole.labels.index_select(1, positions).to(options_.device),
        .context = nn::make_step_context(whole.inputs.size(0), positions.numel(), options_.device)};
    part.context.positions = positions.to(options_.device);
    part.context.whole_sequence = part.context.length = length;
    if (options_.masks && num_tokens < length) {  // an encoder sees padding, unless it is apart
      part.context.documents = at::arange(length, at::kLong)
                                   .ge(num_tokens)
                                   .to(at::kLong)
                                   .expand({whole.inputs.size(0), length})
                                   .contiguous()
                                   .to(options_.device);
    }
    return part;
  }

  // Returns the sum of this rank's losses. Ranks along tp compute the same sum: all but the first
  // return 0, so that the sum over all ranks counts it once.
  double loss_sum(const Rows& rows) {
    const Batch batch = read(rows_of_replica(rows));
    double sum = 0;
    stages_.run([&](int stage, const at::Tensor& before) {
      const models::Streams start =
          stage == 0 ? model_.embed(batch.inputs, batch.context) : models::Streams{before};
      const Range blocks = strategy_.blocks_of_stage(stage, model_.num_blocks());
      const at::Tensor x = model_.run_blocks(blocks, start, batch.context).x;
      if (stage < strategy_.num_stages() - 1) return x;
      sum = model_.head_loss_sum(x, batch.labels, batch.context).item<double>();
      return at::Tensor();
    });
    return ranks_ && ranks_->coordinate(Axis::tp) > 0 ? 0 : sum;
  }

  double over_ranks(double sum) const {
    if (!ranks_) return sum;
    const at::Tensor all = at::full({1}, sum, at::kDouble).to(ranks_->device());
    comm::all_reduce(all, ranks_->world_group(), comm::Reason::control);
    return all.item<double>();
  }

  models::LanguageModel& model_;
  const data::Corpus& corpus_;
  EvaluateOptions options_;
  const ParallelContext* ranks_;
  Strategy strategy_;
  Stages stages_;
};

}  // namespace

double Evaluation::perplexity() const {
  return std::exp(loss());
}

Evaluation evaluate(models::LanguageModel& model, const data::Corpus& corpus,
                    const EvaluateOptions& options,
                    const std::function<void(const Evaluation&)>& progress) {
  validate(corpus, options);
  const at::NoGradGuard no_grad;
  return Evaluator(model, corpus, options).run(progress);
}

}  // namespace colossal::serve
