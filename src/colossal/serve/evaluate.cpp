#include "colossal/serve/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/comm/group.h"
#include "colossal/data/text_batch.h"
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

class Evaluator {
 public:
  Evaluator(models::Model& model, const data::Corpus& corpus, const EvaluateOptions& options)
      : model_(model),
        corpus_(corpus),
        options_(options),
        ranks_(options.ranks),
        strategy_(ranks_ ? ranks_->strategy() : Strategy{}),
        stages_(ranks_),
        part_(ranks_ ? parallel::sequence_part(*ranks_)
                     : nn::SequencePart{.device = options.device}) {}

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
    std::vector<int64_t> ids(rows.count);
    std::iota(ids.begin(), ids.end(), rows.begin / options_.sequence_length);
    data::Batch batch = data::text_batch(tokens, at::empty_like(tokens), std::move(ids));
    data::mask_tokens(batch, *options_.masks);
    return batch;
  }

  // Returns the number of tokens that all replicas predict in these rows.
  int64_t count_predicted(const Rows& rows) const {
    if (!options_.masks) return rows.tokens();
    return read_masked(rows).at(data::kLabels).ne(ops::kIgnoredLabel).sum().item<int64_t>();
  }

  // Returns the rows, padded.
  data::Batch read(const Rows& rows) const {
    if (options_.masks) {
      const data::Batch masked = read_masked(rows);
      return padded(masked.at(data::kTokens), masked.at(data::kLabels));
    }
    const at::Tensor tokens = at::empty({rows.tokens() + 1}, at::kLong);
    corpus_.read(rows.begin,
                 {tokens.mutable_data_ptr<int64_t>(), static_cast<size_t>(tokens.numel())});
    const auto from = [&](int64_t first) {
      return tokens.narrow(0, first, rows.tokens()).view({rows.count, rows.length});
    };
    return padded(from(0), from(1));
  }

  data::Batch padded(const at::Tensor& tokens, const at::Tensor& labels) const {
    const at::Tensor filled = fill_up(tokens, 0);
    const int64_t count = filled.size(0), length = filled.size(1);
    data::Batch batch =
        data::text_batch(filled, fill_up(labels, ops::kIgnoredLabel), std::vector<int64_t>(count));
    if (options_.masks && tokens.size(1) < length) {  // an encoder sees padding, unless it is apart
      batch.set(data::kDocuments, at::arange(length, at::kLong)
                                      .ge(tokens.size(1))
                                      .to(at::kLong)
                                      .expand({count, length})
                                      .contiguous());
    }
    return batch;
  }

  // Returns the sum of this rank's losses. Ranks along tp compute the same sum: all but the first
  // return 0, so that the sum over all ranks counts it once.
  double loss_sum(const Rows& rows) {
    const data::Batch whole = read(rows_of_replica(rows));
    const nn::StepContext context = model_.context_of(whole, {}, part_);
    const data::Batch batch = data::local_batch(whole, part_);
    double sum = 0;
    stages_.run([&](int stage, const at::Tensor& before) {
      const nn::BlockState start =
          stage == 0 ? model_.inputs(batch, context) : nn::BlockState{{before}};
      const Range blocks = strategy_.blocks_of_stage(stage, model_.num_blocks());
      const at::Tensor x = model_.run_blocks(blocks, start, context).output();
      if (stage < strategy_.num_stages() - 1) return x;
      sum = model_.token_head().loss_sum(x, batch.at(data::kLabels), context).item<double>();
      return at::Tensor();
    });
    return ranks_ && ranks_->coordinate(Axis::tp) > 0 ? 0 : sum;
  }

  double over_ranks(double sum) const {
    if (!ranks_) return sum;
    const at::Tensor all = at::full({1}, sum, at::kDouble).to(ranks_->device());
    comm::all_reduce(all, ranks_->world_group(), comm::Reason::control);
    return comm::on_host(all, ranks_->world_group()).item<double>();
  }

  models::Model& model_;
  const data::Corpus& corpus_;
  EvaluateOptions options_;
  const ParallelContext* ranks_;
  Strategy strategy_;
  Stages stages_;
  nn::SequencePart part_;
};

}  // namespace

double Evaluation::perplexity() const {
  return std::exp(loss());
}

Evaluation evaluate(models::Model& model, const data::Corpus& corpus,
                    const EvaluateOptions& options,
                    const std::function<void(const Evaluation&)>& progress) {
  validate(corpus, options);
  const at::NoGradGuard no_grad;
  return Evaluator(model, corpus, options).run(progress);
}

}  // namespace colossal::serve
