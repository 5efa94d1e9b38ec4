#include "colossal/ops/blocked_attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>

#include "colossal/ops/flat_tensor.h"

namespace colossal::ops {
namespace {

constexpr int64_t kMaximumRows = 128;

const char* element_at(const at::Tensor& tensor, int64_t offset) {
  return static_cast<const char*>(tensor.const_data_ptr()) + offset * tensor.element_size();
}

char* mutable_element_at(const at::Tensor& tensor, int64_t offset) {
  return static_cast<char*>(tensor.mutable_data_ptr()) + offset * tensor.element_size();
}

// One head's rows [first, first + matrix rows) of a tensor [batch, heads, rows, columns].
struct HeadRows {
  const at::Tensor& tensor;
  int64_t sample, head, first;

  int64_t offset(int64_t row) const {
    return sample * tensor.stride(0) + head * tensor.stride(1) + (first + row) * tensor.stride(2);
  }
};

// matrix [rows, columns], dense, <- the rows, in the matrix's type.
void load(const HeadRows& from, const at::Tensor& matrix) {
  const auto from_type = element_type(from.tensor.scalar_type());
  const auto to_type = element_type(matrix.scalar_type());
  for (int64_t row = 0; row < matrix.size(0); ++row) {
    kernels::vector_kernels().convert(element_at(from.tensor, from.offset(row)), from_type,
                                      mutable_element_at(matrix, row * matrix.size(1)), to_type,
                                      matrix.size(1), 1);
  }
}

void store(const at::Tensor& matrix, const HeadRows& to) {
  const auto from_type = element_type(matrix.scalar_type());
  const auto to_type = element_type(to.tensor.scalar_type());
  for (int64_t row = 0; row < matrix.size(0); ++row) {
    kernels::vector_kernels().convert(element_at(matrix, row * matrix.size(1)), from_type,
                                      mutable_element_at(to.tensor, to.offset(row)), to_type,
                                      matrix.size(1), 1);
  }
}

double read_number(const at::Tensor& tensor, int64_t offset) {
  return tensor.scalar_type() == at::kDouble ? tensor.const_data_ptr<double>()[offset]
                                             : tensor.const_data_ptr<float>()[offset];
}

void write_number(const at::Tensor& tensor, int64_t offset, double value) {
  if (tensor.scalar_type() == at::kDouble) {
    tensor.mutable_data_ptr<double>()[offset] = value;
  } else {
    tensor.mutable_data_ptr<float>()[offset] = static_cast<float>(value);
  }
}

// <output, its gradient> of each row.
double inner_product(const at::Tensor& a, const at::Tensor& b, int64_t row) {
  double sum = 0;
  for (int64_t i = row * a.size(1); i < (row + 1) * a.size(1); ++i) {
    sum += read_number(a, i) * read_number(b, i);
  }
  return sum;
}

// A thread's part of one allocation, handed out in matrices.
class Scratch {
 public:
  explicit Scratch(const at::Tensor& memory) : memory_(memory) {}

  // [rows, columns], dense
  at::Tensor take(int64_t rows, int64_t columns) {
    const at::Tensor matrix = memory_.narrow(0, used_, rows * columns).view({rows, columns});
    used_ += rows * columns;
    return matrix;
  }

 private:
  at::Tensor memory_;
  int64_t used_ = 0;
};

// The first rows * columns elements of a scratch matrix as a dense matrix of that size.
at::Tensor reshape_front(const at::Tensor& matrix, int64_t rows, int64_t columns) {
  return matrix.view(-1).narrow(0, 0, rows * columns).view({rows, columns});
}

class Problem {
 public:
  explicit Problem(const BlockedAttention& given)
      : given_(given),
        type_(compute_type(given.query.scalar_type())),
        rule_(dropout_rule(given.dropout)),
        kv_heads_(given.key.size(1)),
        group_(given.query.size(1) / kv_heads_),
        sequence_(given.query.size(2)),
        keys_(given.key.size(2)),
        head_size_(given.query.size(3)),
        value_size_(given.value.size(3)) {
    const int64_t row_bytes = keys_ * static_cast<int64_t>(c10::elementSize(type_));
    rows_ =
        std::clamp<int64_t>(kAttentionBlockBytes / row_bytes, 1, std::min(kMaximumRows, sequence_));
  }

  void forward(const at::Tensor& output, const at::Tensor& logsumexp) const;
  void backward(const at::Tensor& output, const at::Tensor& logsumexp,
                const at::Tensor& output_gradient, const at::Tensor& query_gradient,
                const at::Tensor& key_gradient, const at::Tensor& value_gradient) const;

 private:
  // A block of query rows of one head.
  struct Block {
    int64_t sample, head, begin, rows;
    int64_t columns;  // keys that its last row sees
  };

  // Keys that the rows before `end` see.
  int64_t visible(int64_t end) const { return given_.causal ? keys_ - sequence_ + end : keys_; }

  // run(sample, kv_head, scratch) for each on this rank's threads. All memory is allocated here, by
  // the thread that calls.
  template <typename Run>
  void for_each_key_head(int64_t scratch_size, const Run& run) const;

  // run(block) for the blocks of all query heads that share a key head.
  template <typename Run>
  void for_each_block(int64_t sample, int64_t kv_head, const Run& run) const;

  kernels::ScoreRow score_row(const at::Tensor& scores, const Block& block, int64_t row) const;

  const BlockedAttention& given_;
  at::ScalarType type_;
  kernels::DropoutRule rule_;
  int64_t kv_heads_, group_, sequence_, keys_, head_size_, value_size_;
  int64_t rows_;  // of a block
};

template <typename Run>
void Problem::for_each_key_head(int64_t scratch_size, const Run& run) const {
  const int64_t pieces = given_.query.size(0) * kv_heads_;
  const int64_t threads = std::min<int64_t>(at::get_num_threads(), pieces);
  const int64_t share = at::divup(pieces, threads);
  const at::Tensor memory = at::empty({threads, scratch_size}, type_);
  at::parallel_for(0, threads, 1, [&](int64_t first, int64_t last) {
    // Threads of the pool do not inherit the caller's state: products here are no one's graph.
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (int64_t thread = first; thread < last; ++thread) {
      const int64_t end = std::min(pieces, (thread + 1) * share);
      for (int64_t piece = thread * share; piece < end; ++piece) {
        run(piece / kv_heads_, piece % kv_heads_, Scratch(memory.select(0, thread)));
      }
    }
  });
}

template <typename Run>
void Problem::for_each_block(int64_t sample, int64_t kv_head, const Run& run) const {
  for (int64_t head = kv_head * group_; head < (kv_head + 1) * group_; ++head) {
    for (int64_t begin = 0; begin < sequence_; begin += rows_) {
      const int64_t rows = std::min(rows_, sequence_ - begin);
      run(Block{sample, head, begin, rows, visible(begin + rows)});
    }
  }
}

kernels::ScoreRow Problem::score_row(const at::Tensor& scores, const Block& block,
                                     int64_t row) const {
  const bool dropout = given_.dropout > 0;
  const int64_t query = block.begin + row;
  const RandomKey key = random_subkey(given_.random_key, given_.head_begin + block.head);
  const auto id = dropout ? static_cast<uint64_t>(given_.sample_ids[block.sample]) : 0;
  return {.scores = mutable_element_at(scores, row * block.columns),
          .type = element_type(type_),
          .valid = visible(query + 1),
          .columns = block.columns,
          .scale = given_.scale,
          .dropout = dropout ? &rule_ : nullptr,
          .random = random_row(key, id, static_cast<uint32_t>(keys_ - sequence_ + query))};
}

void Problem::forward(const at::Tensor& output, const at::Tensor& logsumexp) const {
  const int64_t scratch_size = (keys_ + rows_) * (head_size_ + value_size_) + rows_ * keys_;
  for_each_key_head(scratch_size, [&](int64_t sample, int64_t kv_head, Scratch scratch) {
    const at::Tensor keys = scratch.take(keys_, head_size_);
    const at::Tensor values = scratch.take(keys_, value_size_);
    const at::Tensor query_memory = scratch.take(rows_, head_size_);
    const at::Tensor output_memory = scratch.take(rows_, value_size_);
    const at::Tensor score_memory = scratch.take(rows_, keys_);
    load({given_.key, sample, kv_head, 0}, keys);
    load({given_.value, sample, kv_head, 0}, values);
    for_each_block(sample, kv_head, [&](const Block& block) {
      const at::Tensor queries = query_memory.narrow(0, 0, block.rows);
      at::Tensor outputs = output_memory.narrow(0, 0, block.rows);
      at::Tensor scores = reshape_front(score_memory, block.rows, block.columns);
      load({given_.query, sample, block.head, block.begin}, queries);
      at::mm_out(scores, queries, keys.narrow(0, 0, block.columns).t());
      for (int64_t row = 0; row < block.rows; ++row) {
        const int64_t place = sample * logsumexp.stride(0) + block.head * logsumexp.stride(1) +
                              (block.begin + row) * logsumexp.stride(2);
        write_number(
            logsumexp, place,
            kernels::vector_kernels().attention_probabilities(score_row(scores, block, row)));
      }
      at::mm_out(outputs, scores, values.narrow(0, 0, block.columns));
      store(outputs, {output, sample, block.head, block.begin});
    });
  });
}

// With P the probabilities, M the mask with its factor, O the output and D = rowsum(dO * O):
//   dV = (P M)^T dO,  dS = P * (M * (dO V^T) - D) * scale,  dQ = dS K,  dK = dS^T Q.
void Problem::backward(const at::Tensor& output, const at::Tensor& logsumexp,
                       const at::Tensor& output_gradient, const at::Tensor& query_gradient,
                       const at::Tensor& key_gradient, const at::Tensor& value_gradient) const {
  const int64_t scratch_size = 2 * (keys_ + rows_) * (head_size_ + value_size_) + 2 * rows_ * keys_;
  for_each_key_head(scratch_size, [&](int64_t sample, int64_t kv_head, Scratch scratch) {
    const at::Tensor keys = scratch.take(keys_, head_size_);
    const at::Tensor values = scratch.take(keys_, value_size_);
    const at::Tensor key_gradients = scratch.take(keys_, head_size_).zero_();
    const at::Tensor value_gradients = scratch.take(keys_, value_size_).zero_();
    const at::Tensor query_memory = scratch.take(rows_, head_size_);
    const at::Tensor query_gradient_memory = scratch.take(rows_, head_size_);
    const at::Tensor output_memory = scratch.take(rows_, value_size_);
    const at::Tensor output_gradient_memory = scratch.take(rows_, value_size_);
    const at::Tensor score_memory = scratch.take(rows_, keys_);
    const at::Tensor score_gradient_memory = scratch.take(rows_, keys_);
    load({given_.key, sample, kv_head, 0}, keys);
    load({given_.value, sample, kv_head, 0}, values);
    for_each_block(sample, kv_head, [&](const Block& block) {
      const at::Tensor queries = query_memory.narrow(0, 0, block.rows);
      const at::Tensor outputs = output_memory.narrow(0, 0, block.rows);
      const at::Tensor output_gradients = output_gradient_memory.narrow(0, 0, block.rows);
      load({given_.query, sample, block.head, block.begin}, queries);
      load({output, sample, block.head, block.begin}, outputs);
      load({output_gradient, sample, block.head, block.begin}, output_gradients);
      at::Tensor scores = reshape_front(score_memory, block.rows, block.columns);
      at::Tensor score_gradients = reshape_front(score_gradient_memory, block.rows, block.columns);
      at::mm_out(scores, queries, keys.narrow(0, 0, block.columns).t());
      at::mm_out(score_gradients, output_gradients, values.narrow(0, 0, block.columns).t());
      for (int64_t row = 0; row < block.rows; ++row) {
        const int64_t place = sample * logsumexp.stride(0) + block.head * logsumexp.stride(1) +
                              (block.begin + row) * logsumexp.stride(2);
        kernels::vector_kernels().attention_gradient(
            score_row(scores, block, row), mutable_element_at(score_gradients, row * block.columns),
            read_number(logsumexp, place), inner_product(outputs, output_gradients, row));
      }
      value_gradients.narrow(0, 0, block.columns).addmm_(scores.t(), output_gradients);
      key_gradients.narrow(0, 0, block.columns).addmm_(score_gradients.t(), queries);
      at::Tensor query_gradients = query_gradient_memory.narrow(0, 0, block.rows);
      at::mm_out(query_gradients, score_gradients, keys.narrow(0, 0, block.columns));
      store(query_gradients, {query_gradient, sample, block.head, block.begin});
    });
    store(key_gradients, {key_gradient, sample, kv_head, 0});
    store(value_gradients, {value_gradient, sample, kv_head, 0});
  });
}

}  // namespace

void blocked_attention_forward(const BlockedAttention& problem, const at::Tensor& output,
                               const at::Tensor& logsumexp) {
  Problem(problem).forward(output, logsumexp);
}

void blocked_attention_backward(const BlockedAttention& problem, const at::Tensor& output,
                                const at::Tensor& logsumexp, const at::Tensor& output_gradient,
                                const at::Tensor& query_gradient, const at::Tensor& key_gradient,
                                const at::Tensor& value_gradient) {
  Problem(problem).backward(output, logsumexp, output_gradient, query_gradient, key_gradient,
                            value_gradient);
}

}  // namespace colossal::ops
