#include "colossal/engine/contrastive_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "colossal/comm/group.h"
#include "colossal/data/pair_fields.h"
#include "colossal/data/score_fields.h"
#include "colossal/parallel/collectives.h"

namespace colossal {
namespace {

// Rows of the global batch whose logits exist at once.
constexpr int64_t kRowsAtOnce = 1024;

using Loss = models::TextTower::Loss;
using parallel::Shares;

// One direction of the comparison: the rows of this rank's vectors against all vectors of the other
// kind.
struct Direction {
  at::Tensor mine;        // [rows, features]
  at::Tensor others;      // [all rows, features]
  at::Tensor scale;       // [], the factor of products of vectors in logits
  at::Tensor bias;        // [], added to logits
  int64_t first_row = 0;  // of `mine`, in the global batch

  int64_t rows() const { return mine.size(0); }
  at::Tensor logits(const Range& block) const {
    return at::matmul(mine.narrow(0, block.begin, block.size()), others.t()) * scale + bias;
  }
  // Returns 1 where a row of the block and a vector of the other kind are a pair, else 0.
  at::Tensor pairs(const Range& block) const {
    const at::TensorOptions indices = at::TensorOptions(at::kLong).device(mine.device());
    const at::Tensor row = at::arange(block.begin, block.end, indices) + first_row;
    return row.unsqueeze(1).eq(at::arange(others.size(0), indices)).to(mine.dtype());
  }
  template <typename Visit>
  void for_each_block(const Visit& visit) const {
    int64_t begin = 0;
    do {  // also without rows
      visit(Range{begin, std::min(rows(), begin + kRowsAtOnce)});
      begin += kRowsAtOnce;
    } while (begin < rows());
  }
};

// What add_pair_gradients() finds out about this rank's rows in one direction.
struct Found {
  at::Tensor vectors;                          // gradients by `mine`
  at::Tensor scales, biases, losses, matches;  // [rows]
};

// Of a block of rows: the gradients of the losses of the rows by their logits; those of the losses
// of the other direction by the same logits; and the losses of the rows.
struct OfBlock {
  at::Tensor as_rows;     // [rows of the block, all rows]
  at::Tensor as_columns;  // the same; undefined: the other direction has no losses
  at::Tensor losses;      // [rows of the block]
};
// gradients: returns OfBlock for a block, its logits, and pairs() of it.
template <typename Gradients>
Found compare(const Direction& direction, const Gradients& gradients) {
  std::vector<at::Tensor> vectors, scales, biases, losses, matches;
  direction.for_each_block([&](const Range& block) {
    const at::Tensor logits = direction.logits(block), pairs = direction.pairs(block);
    const OfBlock found = gradients(block, logits, pairs);
    const at::Tensor all =
        found.as_columns.defined() ? found.as_rows + found.as_columns : found.as_rows;
    vectors.push_back(at::matmul(all, direction.others) * direction.scale);
    scales.push_back((found.as_rows * (logits - direction.bias)).sum(1));
    biases.push_back(found.as_rows.sum(1));
    losses.push_back(found.losses);
    matches.push_back(pairs.gather(1, logits.argmax(1, /*keepdim=*/true)).squeeze(1));
  });
  return {at::cat(vectors), at::cat(scales), at::cat(biases), at::cat(losses), at::cat(matches)};
}

// -log softmax over the rows of both directions, each with weight 1/2. normalizers: logsumexp of
// the logits of all rows of the other direction.
Found softmax(const Direction& direction, const at::Tensor& of_mine,
              const at::Tensor& normalizers) {
  return compare(
      direction,
      [&](const Range& block, const at::Tensor& logits, const at::Tensor& pairs) -> OfBlock {
        const at::Tensor mine = of_mine.narrow(0, block.begin, block.size());
        return {(at::exp(logits - mine.unsqueeze(1)) - pairs) / 2,
                (at::exp(logits - normalizers) - pairs) / 2, (mine - (logits * pairs).sum(1)) / 2};
      });
}

Found sigmoid(const Direction& direction) {
  return compare(
      direction, [](const Range&, const at::Tensor& logits, const at::Tensor& pairs) -> OfBlock {
        const at::Tensor signs = 2 * pairs - 1;
        return {-signs * at::sigmoid(-signs * logits), {}, -at::log_sigmoid(signs * logits).sum(1)};
      });
}

at::Tensor normalizers_of(const Direction& direction) {
  std::vector<at::Tensor> found;
  direction.for_each_block(
      [&](const Range& block) { found.push_back(at::logsumexp(direction.logits(block), 1)); });
  return at::cat(found);
}

// Returns the number of rows of each replica.
Shares rows_of_replicas(int64_t rows, const ParallelContext& context) {
  const comm::Group& replicas = context.group(Axis::dp);
  Shares shares{&replicas, std::vector<int64_t>(replicas.size(), rows), comm::Reason::data};
  const at::Tensor counts =
      at::zeros({replicas.size()}, at::TensorOptions(at::kDouble).device(context.device()));
  counts[replicas.rank()] = static_cast<double>(rows);
  comm::all_reduce(counts, replicas, comm::Reason::control);
  if (counts.is_meta()) return shares;  // a dry run
  const at::Tensor on_host = comm::on_host(counts, replicas);
  for (int replica = 0; replica < replicas.size(); ++replica) {
    shares.sizes[replica] = static_cast<int64_t>(on_host[replica].item<double>());
  }
  return shares;
}

// Adds what was found of the rows `images` and `texts` to the batches that have rows.
void set_fields(std::vector<data::Batch>& batches, const Found& images, const Found& texts,
                Loss loss) {
  const bool both = loss == Loss::softmax;
  const auto sum = [&](const at::Tensor& of_images, const at::Tensor& of_texts) {
    return both ? of_images + of_texts : of_texts;
  };
  const std::pair<const char*, at::Tensor> fields[] = {
      {data::kImageGradients, images.vectors},
      {data::kTextGradients, texts.vectors},
      {data::kScaleGradients, sum(images.scales, texts.scales)},
      {data::kBiasGradients, sum(images.biases, texts.biases)},
      {data::kPairLosses, sum(images.losses, texts.losses)},
      {data::kPairMatches, images.matches}};
  int64_t row = 0;
  for (data::Batch& batch : batches) {
    for (const auto& [name, values] : fields) batch.set(name, values.narrow(0, row, batch.rows()));
    row += batch.rows();
  }
}

}  // namespace

models::Embeddings unit_vectors(models::Model& model, const nn::BlockState& state,
                                const data::Batch& batch, const nn::StepContext& step,
                                const ParallelContext& context) {
  models::Embeddings found =
      model.embedding_head().embeddings(state, batch.at(data::kPooling), step);
  for (at::Tensor* vectors : {&found.images, &found.texts}) {
    const bool wide = vectors->scalar_type() == at::kDouble;
    at::Tensor whole = vectors->to(wide ? at::kDouble : at::kFloat);
    if (context.strategy().sp > 1) {
      whole = parallel::reduce_from_tensor_parallel(whole, context.group(Axis::sp));
    }
    constexpr double kLeast = 1e-24;  // vectors of zeros stay what they are
    *vectors = whole / whole.square().sum(-1, /*keepdim=*/true).clamp_min(kLeast).sqrt();
  }
  return found;
}

void add_pair_gradients(std::vector<data::Batch>& batches,
                        const std::vector<models::Embeddings>& vectors,
                        const models::TextTower& texts, at::ScalarType type,
                        const ParallelContext& context) {
  const at::NoGradGuard no_grad;
  const at::TensorOptions options = at::TensorOptions(type).device(context.device());
  // In an evaluation a replica may have no rows, but takes part.
  std::vector<at::Tensor> of_images{at::zeros({0, texts.features}, options)};
  std::vector<at::Tensor> of_texts{of_images.front()};
  at::Tensor scale = at::zeros({}, options), bias = scale;
  for (const models::Embeddings& found : vectors) {
    of_images.push_back(found.images);
    of_texts.push_back(found.texts);
    scale = at::exp(found.logit_scale.to(type));
    if (found.logit_bias.defined()) bias = found.logit_bias.to(type);
  }
  const at::Tensor both = at::cat({at::cat(of_images), at::cat(of_texts)}, 1);
  const Shares shares = rows_of_replicas(both.size(0), context);
  const at::Tensor all = parallel::collect_rows(both, shares);
  const auto direction = [&](int64_t mine, int64_t others) {
    const int64_t size = texts.features;
    return Direction{both.narrow(1, mine, size), all.narrow(1, others, size), scale, bias,
                     shares.here().begin};
  };
  const Direction from_images = direction(0, texts.features),
                  from_texts = direction(texts.features, 0);
  if (texts.loss == Loss::sigmoid) {
    return set_fields(batches, sigmoid(from_images), sigmoid(from_texts), texts.loss);
  }
  const at::Tensor of_mine =
      at::stack({normalizers_of(from_images), normalizers_of(from_texts)}, 1);
  const at::Tensor of_all = parallel::collect_rows(of_mine, shares);
  set_fields(batches, softmax(from_images, of_mine.select(1, 0), of_all.select(1, 1)),
             softmax(from_texts, of_mine.select(1, 1), of_all.select(1, 0)), texts.loss);
}

HeadLoss contrastive_loss(const models::TextTower& texts, const ParallelContext& context) {
  return [texts, &context](models::Model& model, const nn::BlockState& state,
                           const data::Batch& given, const nn::StepContext& step) {
    const models::Embeddings found = unit_vectors(model, state, given, step, context);
    const at::ScalarType type = found.images.scalar_type();
    std::vector<data::Batch> batches{given};
    if (!given.has(data::kPairLosses)) {
      add_pair_gradients(batches, {found}, texts, type, context);
    }
    const data::Batch& batch = batches.front();
    const auto field = [&](const char* name) { return batch.at(name).to(type); };
    // Each rank of sp adds the same terms of the scalars; the vectors' are summed by
    // unit_vectors().
    const int copies = context.strategy().sp;
    at::Tensor linear = (found.images * field(data::kImageGradients)).sum() +
                        (found.texts * field(data::kTextGradients)).sum() +
                        found.logit_scale.to(type) * field(data::kScaleGradients).sum() / copies;
    if (found.logit_bias.defined()) {
      linear = linear + found.logit_bias.to(type) * field(data::kBiasGradients).sum() / copies;
    }
    const at::Tensor& matches = batch.at(data::kPairMatches);
    return LossSum{
        .sum = linear - linear.detach() + field(data::kPairLosses).sum(),
        .count = batch.rows(),
        .copies = copies,
        .metrics = {
            {"accuracy", {.sum = matches.sum(), .count = static_cast<double>(matches.size(0))}}}};
  };
}

}  // namespace colossal
