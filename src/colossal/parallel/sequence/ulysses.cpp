#include "colossal/parallel/sequence/ulysses.h"

#include "colossal/layout/partition.h"
#include "colossal/layout/runs.h"
#include "colossal/nn/attention_heads.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/parallel/saved_group.h"

namespace colossal::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Which rank holds which part of a tensor [batch, positions, features of heads], before and after
// the all-to-all.
struct Exchange {
  const comm::Group* group = nullptr;
  // by rank; several ranks may need the same keys, and some keys no rank
  std::vector<std::vector<Range>> features;
  int64_t num_features = 0;  // of all ranks
  int64_t positions = 0;     // of all ranks

  int size() const { return group->size(); }
  Range positions_of(int rank) const { return Partition(positions, size()).range(rank); }
  int64_t num_features_of(int rank) const { return num_indices(features[rank]); }
};

std::vector<at::Tensor> all_to_all(const std::vector<at::Tensor>& parts,
                                   const std::vector<std::vector<int64_t>>& shapes,
                                   const comm::Group& group) {
  std::vector<int64_t> send_counts, receive_counts;
  std::vector<at::Tensor> flat;
  for (const at::Tensor& part : parts) {
    send_counts.push_back(part.numel());
    flat.push_back(part.reshape(-1));
  }
  int64_t total = 0;
  for (const std::vector<int64_t>& shape : shapes) {
    receive_counts.push_back(c10::multiply_integers(shape));
    total += receive_counts.back();
  }
  const at::Tensor received = at::empty({total}, parts[0].options());
  comm::all_to_all(at::cat(flat), send_counts, received, receive_counts, group,
                   comm::Reason::sequence);
  std::vector<at::Tensor> results = received.split_with_sizes(receive_counts);
  for (size_t i = 0; i < results.size(); ++i) results[i] = results[i].view(shapes[i]);
  return results;
}

// Exchanges this rank's positions of all heads for all positions of this rank's heads.
at::Tensor to_heads(const at::Tensor& x, const Exchange& exchange) {
  const int64_t mine = exchange.num_features_of(exchange.group->rank());
  std::vector<at::Tensor> parts;
  std::vector<std::vector<int64_t>> shapes;
  for (int rank = 0; rank < exchange.size(); ++rank) {
    std::vector<at::Tensor> runs;
    for (const Range& run : exchange.features[rank]) {
      runs.push_back(x.narrow(2, run.begin, run.size()));
    }
    parts.push_back(at::cat(runs, 2));
    shapes.push_back({x.size(0), exchange.positions_of(rank).size(), mine});
  }
  return at::cat(all_to_all(parts, shapes, *exchange.group), 1);
}

// Exchanges all positions of this rank's heads for this rank's positions of all heads. Sums a head
// that several ranks have; returns zeros for a head that no rank has.
at::Tensor to_positions(const at::Tensor& x, const Exchange& exchange) {
  const int64_t mine = exchange.positions_of(exchange.group->rank()).size();
  std::vector<at::Tensor> parts;
  std::vector<std::vector<int64_t>> shapes;
  for (int rank = 0; rank < exchange.size(); ++rank) {
    const Range positions = exchange.positions_of(rank);
    parts.push_back(x.narrow(1, positions.begin, positions.size()));
    shapes.push_back({x.size(0), mine, exchange.num_features_of(rank)});
  }
  const std::vector<at::Tensor> received = all_to_all(parts, shapes, *exchange.group);
  const at::Tensor all =
      at::zeros({x.size(0), mine, exchange.num_features},
                x.options().dtype(ops::compute_type(x.scalar_type())));  // for the sums
  for (int rank = 0; rank < exchange.size(); ++rank) {
    int64_t begin = 0;
    for (const Range& run : exchange.features[rank]) {
      all.narrow(2, run.begin, run.size()).add_(received[rank].narrow(2, begin, run.size()));
      begin += run.size();
    }
  }
  return all.to(x.scalar_type());
}

// to_heads() and to_positions() are transposes of each other, so each computes the gradient of the
// other.
using Move = at::Tensor (*)(const at::Tensor& x, const Exchange& exchange);

template <Move forwards, Move backwards>
struct Moved : torch::autograd::Function<Moved<forwards, backwards>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const Exchange& exchange) {
    std::vector<int64_t> features;
    for (const std::vector<Range>& runs : exchange.features) {
      for (const Range& run : runs) features.insert(features.end(), {run.begin, run.end});
    }
    save_group(context, *exchange.group);
    context->saved_data["features"] = features;
    context->saved_data["num_features"] = exchange.num_features;
    context->saved_data["positions"] = exchange.positions;
    return forwards(x, exchange);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto& data = context->saved_data;
    Exchange exchange{.group = &saved_group(context),
                      .num_features = data["num_features"].toInt(),
                      .positions = data["positions"].toInt()};
    const std::vector<int64_t> features = data["features"].toIntVector();
    exchange.features.resize(exchange.size());
    const size_t of_a_rank = features.size() / exchange.features.size();
    for (size_t i = 0; i < features.size(); i += 2) {
      exchange.features[i / of_a_rank].push_back({features[i], features[i + 1]});
    }
    return {backwards(gradients[0], exchange), {}};
  }
};

class UlyssesAttention : public nn::Attention {
 public:
  UlyssesAttention(std::string stream, const nn::AttentionOptions& options,
                   const nn::LocalHeads& here, const nn::AttentionParameters& parameters,
                   const comm::Group& group)
      : heads_(options, here) {
    of_qkv_.group = of_results_.group = &group;
    const int64_t queries = here.queries.size(), keys = here.keys.size();
    const int64_t size = options.head_size, value_size = options.size_of_value();
    const int64_t first_key = queries * size, first_value = first_key + keys * size;
    of_qkv_.num_features = first_value + keys * value_size;
    of_results_.num_features = queries * value_size;
    for (int rank = 0; rank < group.size(); ++rank) {
      const nn::LocalHeads share = share_of(rank, options, here, group);
      const Range of_queries = moved(share.queries, -here.queries.begin);
      const Range of_keys = moved(share.keys, -here.keys.begin);
      of_qkv_.features.push_back({features_of(of_queries, size, 0),
                                  features_of(of_keys, size, first_key),
                                  features_of(of_keys, value_size, first_value)});
      of_results_.features.push_back({features_of(of_queries, value_size, 0)});
    }
    const Range inner = share_of(group.rank(), options, here, group).queries;
    first_head_ = inner.begin - here.queries.begin;
    inner_heads_ = inner.size();
    // forward() applies rotary embeddings before the exchange, so the inner attention has none.
    nn::AttentionOptions inside = options;
    inside.rotary = {};
    alone_ = nn::make_dense_attention(stream, options, here, parameters);
    inner_ = nn::make_dense_attention(std::move(stream), inside,
                                      share_of(group.rank(), options, here, group), parameters);
  }

  at::Tensor forward(const at::Tensor& qkv, const at::Tensor& relative_bias,
                     const nn::StepContext& context) override {
    if (context.services.key_values) return alone_->forward(qkv, relative_bias, context);
    Exchange of_qkv = of_qkv_, of_results = of_results_;
    of_qkv.positions = of_results.positions = context.tokens().whole_sequence;
    nn::StepContext inside = context;
    inside.tokens().sequence = context.tokens().whole_sequence;
    const at::Tensor bias = relative_bias.defined()
                                ? relative_bias.narrow(0, first_head_, inner_heads_)
                                : relative_bias;
    const at::Tensor mine =
        Moved<to_heads, to_positions>::apply(heads_.apply_rotary(qkv, context), of_qkv);
    return Moved<to_positions, to_heads>::apply(inner_->forward(mine, bias, inside), of_results);
  }

 private:
  // Returns a rank's even part of the queries, and the keys that these queries use.
  static nn::LocalHeads share_of(int rank, const nn::AttentionOptions& options,
                                 const nn::LocalHeads& here, const comm::Group& group) {
    const Range queries =
        moved(Partition(here.queries.size(), group.size()).range(rank), here.queries.begin);
    const auto key_of = [&](int64_t query) { return query * options.kv_heads / options.heads; };
    return {.queries = queries, .keys = {key_of(queries.begin), key_of(queries.end - 1) + 1}};
  }

  static Range moved(const Range& range, int64_t by) { return {range.begin + by, range.end + by}; }
  // Returns the features of `heads`, of `size` features each; head 0 starts at feature `begin`.
  static Range features_of(const Range& heads, int64_t size, int64_t begin) {
    return {begin + heads.begin * size, begin + heads.end * size};
  }

  nn::AttentionHeads heads_;
  Exchange of_qkv_, of_results_;              // positions: set in each step
  int64_t first_head_ = 0, inner_heads_ = 0;  // of inner_, among this rank's query heads
  std::unique_ptr<nn::Attention> inner_;
  std::unique_ptr<nn::Attention> alone_;  // for generation: each rank has whole sequences
};

}  // namespace

nn::MakeAttention make_ulysses_attention(const comm::Group& group) {
  return [&group](std::string stream, const nn::AttentionOptions& options,
                  const nn::LocalHeads& here, const nn::AttentionParameters& parameters) {
    return std::make_unique<UlyssesAttention>(std::move(stream), options, here, parameters, group);
  };
}

}  // namespace colossal::parallel
