#include "colossal/parallel/sequence/ulysses.h"

#include "colossal/layout/partition.h"
#include "colossal/layout/segments.h"
#include "colossal/parallel/saved_group.h"

namespace colossal::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Who has what of a tensor [batch, positions, heads, head_size] before and after an exchange.
struct Exchange {
  const comm::Group* group = nullptr;
  std::vector<Segment> heads;  // of all ranks: queries, keys, values
  int64_t positions = 0;       // of all ranks

  int size() const { return group->size(); }
  Range positions_of(int rank) const { return Partition(positions, size()).range(rank); }
  std::vector<Range> heads_of(int rank) const { return held_of_segments(heads, size(), rank); }
  int64_t num_heads_of(int rank) const {
    int64_t count = 0;
    for (const Range& run : heads_of(rank)) count += run.size();
    return count;
  }
  int64_t num_heads() const {
    int64_t count = 0;
    for (const Segment& segment : heads) count += segment.size;
    return count;
  }
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

// My positions of all heads -> all positions of my heads.
at::Tensor to_heads(const at::Tensor& x, const Exchange& exchange) {
  const int64_t mine = exchange.num_heads_of(exchange.group->rank());
  std::vector<at::Tensor> parts;
  std::vector<std::vector<int64_t>> shapes;
  for (int rank = 0; rank < exchange.size(); ++rank) {
    std::vector<at::Tensor> runs;
    for (const Range& run : exchange.heads_of(rank)) {
      runs.push_back(x.narrow(2, run.begin, run.size()));
    }
    parts.push_back(at::cat(runs, 2));
    shapes.push_back({x.size(0), exchange.positions_of(rank).size(), mine, x.size(3)});
  }
  return at::cat(all_to_all(parts, shapes, *exchange.group), 1);
}

// All positions of my heads -> my positions of all heads.
at::Tensor to_positions(const at::Tensor& x, const Exchange& exchange) {
  const int64_t mine = exchange.positions_of(exchange.group->rank()).size();
  std::vector<at::Tensor> parts;
  std::vector<std::vector<int64_t>> shapes;
  for (int rank = 0; rank < exchange.size(); ++rank) {
    const Range positions = exchange.positions_of(rank);
    parts.push_back(x.narrow(1, positions.begin, positions.size()));
    shapes.push_back({x.size(0), mine, exchange.num_heads_of(rank), x.size(3)});
  }
  const std::vector<at::Tensor> received = all_to_all(parts, shapes, *exchange.group);
  const at::Tensor all = at::empty({x.size(0), mine, exchange.num_heads(), x.size(3)}, x.options());
  for (int rank = 0; rank < exchange.size(); ++rank) {
    int64_t begin = 0;
    for (const Range& run : exchange.heads_of(rank)) {
      all.narrow(2, run.begin, run.size()).copy_(received[rank].narrow(2, begin, run.size()));
      begin += run.size();
    }
  }
  return all;
}

// Each is the inverse of the other, and so its gradient.
using Move = at::Tensor (*)(const at::Tensor& x, const Exchange& exchange);

template <Move forwards, Move backwards>
struct Moved : torch::autograd::Function<Moved<forwards, backwards>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const Exchange& exchange) {
    std::vector<int64_t> heads;
    for (const Segment& segment : exchange.heads) heads.push_back(segment.size);
    save_group(context, *exchange.group);
    context->saved_data["heads"] = heads;
    context->saved_data["positions"] = exchange.positions;
    return forwards(x, exchange);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto& data = context->saved_data;
    Exchange exchange{.group = &saved_group(context), .positions = data["positions"].toInt()};
    for (const int64_t size : data["heads"].toIntVector()) exchange.heads.push_back({size});
    return {backwards(gradients[0], exchange), {}};
  }
};

class UlyssesAttention : public nn::Attention {
 public:
  UlyssesAttention(std::string stream, const nn::AttentionOptions& options, int64_t head_begin,
                   const comm::Group& group)
      : options_(options),
        group_(group),
        inner_(inner_attention(std::move(stream), options, head_begin, group)) {}

  at::Tensor forward(const at::Tensor& qkv, const nn::StepContext& context) override {
    const Exchange of_qkv{.group = &group_,
                          .heads = {{options_.heads}, {options_.kv_heads}, {options_.kv_heads}},
                          .positions = context.whole_sequence};
    const Exchange of_results{
        .group = &group_, .heads = {{options_.heads}}, .positions = context.whole_sequence};
    nn::StepContext inside = context;
    inside.sequence = context.whole_sequence;
    const at::Tensor mine = Moved<to_heads, to_positions>::apply(
        qkv.view({context.batch, context.sequence, -1, options_.head_size}), of_qkv);
    const at::Tensor results = inner_->forward(mine.flatten(2), inside);
    return Moved<to_positions, to_heads>::apply(results.unflatten(2, {-1, options_.head_size}),
                                                of_results)
        .flatten(2);
  }

 private:
  static std::unique_ptr<nn::Attention> inner_attention(std::string stream,
                                                        const nn::AttentionOptions& options,
                                                        int64_t head_begin,
                                                        const comm::Group& group) {
    const Range mine = Partition(options.heads, group.size()).range(group.rank());
    nn::AttentionOptions here = options;
    here.heads = mine.size();
    here.kv_heads = Partition(options.kv_heads, group.size()).range(group.rank()).size();
    return nn::make_dense_attention(std::move(stream), here, head_begin + mine.begin);
  }

  nn::AttentionOptions options_;
  const comm::Group& group_;
  std::unique_ptr<nn::Attention> inner_;
};

}  // namespace

nn::MakeAttention make_ulysses_attention(const comm::Group& group) {
  return [&group](std::string stream, const nn::AttentionOptions& options, int64_t head_begin) {
    return std::make_unique<UlyssesAttention>(std::move(stream), options, head_begin, group);
  };
}

}  // namespace colossal::parallel
