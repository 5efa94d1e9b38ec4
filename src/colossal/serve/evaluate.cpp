#include "colossal/serve/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "colossal/base/error.h"
#include "colossal/base/units.h"

namespace colossal::serve {
namespace {

// Rows of one length that follow each other in the corpus.
struct Rows {
  int64_t begin = 0;  // first token
  int64_t count = 0;
  int64_t length = 0;
  int64_t tokens() const { return count * length; }
};

void validate(const data::Corpus& corpus, const EvaluateOptions& options) {
  if (options.sequence_length < 1) {
    throw ConfigError(
        fmt::format("--sequence-length={}: 1 or more is needed", options.sequence_length));
  }
  if (options.batch < 1)
    throw ConfigError(fmt::format("--batch={}: 1 or more is needed", options.batch));
  if (corpus.num_tokens() < 2) {
    throw ConfigError(
        fmt::format("{}: the text is one token, which nothing precedes: there is no token to "
                    "predict; give more text",
                    corpus.setting()));
  }
}

// The next rows of a text of which `targets` tokens are predicted.
Rows next_rows(int64_t begin, int64_t targets, const EvaluateOptions& options) {
  const int64_t left = targets - begin;
  const int64_t whole = left / options.sequence_length;
  if (whole == 0) return {begin, 1, left};
  return {begin, std::min(options.batch, whole), options.sequence_length};
}

double loss_sum(models::LanguageModel& model, const data::Corpus& corpus, const Rows& rows,
                at::Device device) {
  const at::Tensor tokens = at::empty({rows.tokens() + 1}, at::kLong);
  corpus.read(rows.begin,
              {tokens.mutable_data_ptr<int64_t>(), static_cast<size_t>(tokens.numel())});
  const auto from = [&](int64_t first) {
    return tokens.narrow(0, first, rows.tokens()).view({rows.count, rows.length}).to(device);
  };
  return model.loss_sum(from(0), from(1), nn::make_step_context(rows.count, rows.length, device))
      .item<double>();
}

}  // namespace

double Evaluation::perplexity() const {
  return std::exp(loss());
}

Evaluation evaluate(models::LanguageModel& model, const data::Corpus& corpus,
                    const EvaluateOptions& options,
                    const std::function<void(const Evaluation&)>& progress) {
  validate(corpus, options);
  const at::NoGradGuard no_grad;
  const int64_t targets = corpus.num_tokens() - 1;
  Evaluation done;
  while (done.tokens < targets) {
    const Rows rows = next_rows(done.tokens, targets, options);
    const double sum = loss_sum(model, corpus, rows, options.device);
    if (!std::isfinite(sum)) {
      throw Error(fmt::format("the loss of tokens {} to {} of the text is not finite",
                              format_count(rows.begin + 1),
                              format_count(rows.begin + rows.tokens())));
    }
    done.loss_sum += sum;
    done.tokens += rows.tokens();
    if (progress) progress(done);
  }
  return done;
}

}  // namespace colossal::serve
