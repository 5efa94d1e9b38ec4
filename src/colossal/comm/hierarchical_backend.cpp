#include "colossal/comm/hierarchical_backend.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "colossal/comm/sum.h"

namespace colossal::comm {
namespace {

// Additional time for each later phase of a call. A rank that times out is named by those that wait
// for it. But it may itself wait for another rank, in an earlier phase, and should report first.
std::chrono::milliseconds grace_of(std::chrono::milliseconds timeout) {
  return std::min<std::chrono::milliseconds>(timeout / 4, std::chrono::seconds(2));
}

at::Tensor view_of(std::byte* memory, int64_t count, at::ScalarType type) {
  return at::from_blob(memory, {count}, at::TensorOptions(type));
}

std::byte* at_least(std::vector<std::byte>& scratch, int64_t bytes) {
  if (std::ssize(scratch) < bytes) scratch.resize(bytes);
  return scratch.data();
}

}  // namespace

HierarchicalBackend::HierarchicalBackend(Membership membership, std::shared_ptr<Ledger> ledger,
                                         std::chrono::milliseconds timeout, Hosts hosts,
                                         std::shared_ptr<PointToPointBackend> within,
                                         std::shared_ptr<PointToPointBackend> between)
    : PointToPointBackend(std::move(membership), std::move(ledger), timeout),
      hosts_(std::move(hosts)),
      within_(std::move(within)),
      between_(std::move(between)),
      clients_(own_host().size()),
      grace_(grace_of(timeout)) {
  for (int client = 0; client < size(); ++client) {
    const int agent = hosts_.agent(client, hosts_.host[rank()]);
    clients_[hosts_.place[agent]].push_back(client);
  }
}

HierarchicalBackend::Buffers::Buffers(Counts counts, int64_t limit)
    : counts(counts), offsets(offsets_of(counts)) {
  const int64_t longest = *std::max_element(counts.begin(), counts.end());
  largest = std::min(limit, longest);
  rounds = longest == 0 ? 1 : (longest + largest - 1) / largest;
}

int64_t HierarchicalBackend::Buffers::size(int rank, int64_t round) const {
  return std::clamp<int64_t>(counts[rank] - round * largest, 0, largest);
}

PointToPointBackend& HierarchicalBackend::within_first() {
  within_->set_grace({});
  return *within_;
}

PointToPointBackend& HierarchicalBackend::within_last() {
  within_->set_grace(2 * grace_);
  return *within_;
}

Exchange& HierarchicalBackend::begin_between(const Call& call) {
  return begin(call, new_deadline().extended(grace_));
}

void HierarchicalBackend::announce(Exchange& exchange, Counts counts, int64_t sum_bytes,
                                   int64_t gather_bytes) {
  const int own = rank();
  for (int peer = 0; peer < size(); ++peer) {
    if (hosts_.host[peer] == hosts_.host[own]) continue;
    const bool acts_for_us = hosts_.agent(own, hosts_.host[peer]) == peer;
    const bool is_our_client = hosts_.agent(peer, hosts_.host[own]) == own;
    if (!acts_for_us && !is_our_client) continue;
    // Sums go from agents to their clients; parts of a gather go from clients to their agents.
    const int64_t for_us = acts_for_us ? counts[own] : 0;
    const int64_t for_peer = is_our_client ? counts[peer] : 0;
    exchange.expect(peer, for_us * sum_bytes + for_peer * gather_bytes);
    exchange.send_header(peer, for_peer * sum_bytes + for_us * gather_bytes);
  }
}

int HierarchicalBackend::num_rows() const {
  size_t rows = 0;
  for (const std::vector<int>& clients : clients_) rows = std::max(rows, clients.size());
  return static_cast<int>(rows);
}

std::vector<int64_t> HierarchicalBackend::row_counts(const Buffers& buffers, int64_t round,
                                                     int row) const {
  std::vector<int64_t> counts;
  for (const std::vector<int>& clients : clients_) {
    counts.push_back(row < std::ssize(clients) ? buffers.size(clients[row], round) : 0);
  }
  return counts;
}

template <typename Copy>
at::Tensor HierarchicalBackend::stage(const at::Tensor& full, const Buffers& buffers, int64_t round,
                                      int row, const Copy& copy) {
  const int64_t element_bytes = full.element_size();
  const std::vector<int64_t> counts = row_counts(buffers, round, row);
  std::byte* const staged = at_least(staged_, total(counts) * element_bytes);
  std::byte* position = staged;
  for (int member = 0; member < std::ssize(clients_); ++member) {
    const int64_t bytes = counts[member] * element_bytes;
    if (bytes == 0) continue;
    const int64_t begin = buffers.begin(clients_[member][row], round);
    copy(member, memory_of(full) + begin * element_bytes, position, bytes);
    position += bytes;
  }
  return view_of(staged, total(counts), full.scalar_type());
}

// The first half of an all-reduce, or a whole reduce-scatter. While the ranks of this host sum one
// round, the sums of the previous round travel between hosts. So there are buffers for two rounds.
class HierarchicalBackend::HostSums {
 public:
  HostSums(HierarchicalBackend& backend, Exchange& exchange, const Call& call,
           const at::Tensor& full, std::byte* part, at::ScalarType part_type, Counts counts)
      : backend_(backend),
        hosts_(backend.hosts_),
        exchange_(exchange),
        call_(call),
        full_(full),
        part_(part),
        part_type_(part_type),
        buffers_(counts, backend.buffer_elements(full.element_size())),
        type_(accumulation_type(full.scalar_type())),
        buffer_bytes_(buffers_.largest * static_cast<int64_t>(c10::elementSize(type_))) {
    at_least(backend.sums_, 2 * backend.num_rows() * buffer_bytes_);
    at_least(backend.received_, 2 * hosts_.size() * buffer_bytes_);
  }

  void run() {
    post_receives(0);
    post_receives(1);
    for (int64_t round = 0; round < buffers_.rounds; ++round) {
      sum_within_host(round);
      if (round > 0) {
        add_hosts(round - 1);
        post_receives(round + 1);
      }
      exchange_.wait_for_sends();
      send(round);
    }
    add_hosts(buffers_.rounds - 1);
  }

 private:
  int own() const { return backend_.rank(); }
  int64_t bytes(int rank, int64_t round) const {
    return buffers_.size(rank, round) * static_cast<int64_t>(c10::elementSize(type_));
  }
  const std::vector<int>& clients() const { return backend_.own_clients(); }
  // Where this host's sum of a client's buffer is.
  std::byte* sum(int64_t round, int64_t row) const {
    return backend_.sums_.data() + (round % 2 * backend_.num_rows() + row) * buffer_bytes_;
  }
  std::byte* received(int64_t round, int host) const {
    return backend_.received_.data() + (round % 2 * hosts_.size() + host) * buffer_bytes_;
  }

  void post_receives(int64_t round) {
    if (round >= buffers_.rounds) return;
    for (int host = 0; host < hosts_.size(); ++host) {
      if (host == hosts_.host[own()]) continue;
      for (auto& transfer : exchange_.receive(received(round, host), bytes(own(), round),
                                              hosts_.agent(own(), host))) {
        receives_[round % 2].push_back(std::move(transfer));
      }
    }
  }

  void sum_within_host(int64_t round) {
    for (int row = 0; row < backend_.num_rows(); ++row) {
      const at::Tensor staged =
          backend_.stage(full_, buffers_, round, row,
                         [](int, const std::byte* buffer, std::byte* place, int64_t bytes) {
                           std::memcpy(place, buffer, bytes);
                         });
      const std::vector<int64_t> counts = backend_.row_counts(buffers_, round, row);
      const int64_t own_count = counts[hosts_.place[own()]];
      if (backend_.within_) {
        backend_.within_first().reduce_scatter(call_, staged,
                                               view_of(sum(round, row), own_count, type_), counts);
      } else {
        const std::array<const void*, 1> alone{memory_of(staged)};
        sum_in_rank_order(alone, own_count, full_.scalar_type(), sum(round, row), type_);
      }
    }
  }

  void send(int64_t round) {
    for (int row = 0; row < std::ssize(clients()); ++row) {
      const int client = clients()[row];
      if (client != own()) exchange_.send(sum(round, row), bytes(client, round), client);
    }
  }

  void add_hosts(int64_t round) {
    exchange_.check_headers();
    exchange_.wait(receives_[round % 2]);
    const auto own_row = std::find(clients().begin(), clients().end(), own()) - clients().begin();
    std::vector<const void*> sources;
    for (int host = 0; host < hosts_.size(); ++host) {
      sources.push_back(host == hosts_.host[own()] ? sum(round, own_row) : received(round, host));
    }
    const int64_t begin =
        round * buffers_.largest * static_cast<int64_t>(c10::elementSize(part_type_));
    sum_in_rank_order(sources, buffers_.size(own(), round), type_, part_ + begin, part_type_);
  }

  HierarchicalBackend& backend_;
  const Hosts& hosts_;
  Exchange& exchange_;
  const Call& call_;
  const at::Tensor& full_;
  std::byte* part_;
  at::ScalarType part_type_;
  Buffers buffers_;
  at::ScalarType type_;  // type of a host's sums
  int64_t buffer_bytes_;
  std::array<std::vector<TransferPointer>, 2> receives_;  // by parity of the round
};

// Receives into `full` directly. While the ranks of this host pass on the first round, other hosts'
// later rounds arrive.
void HierarchicalBackend::gather(Exchange& exchange, const Call& call, const at::Tensor& full,
                                 Counts counts) {
  const int64_t element_bytes = full.element_size();
  const Buffers buffers(counts, buffer_elements(element_bytes));
  const auto memory = [&](int rank, int64_t round) {
    return memory_of(full) + buffers.begin(rank, round) * element_bytes;
  };
  std::vector<std::vector<TransferPointer>> receives(buffers.rounds);
  for (int64_t round = 0; round < buffers.rounds; ++round) {
    for (int client : own_clients()) {
      if (client == rank()) continue;
      for (auto& transfer : exchange.receive(memory(client, round),
                                             buffers.size(client, round) * element_bytes, client)) {
        receives[round].push_back(std::move(transfer));
      }
    }
    for (int host = 0; host < hosts_.size(); ++host) {
      if (host == hosts_.host[rank()]) continue;
      exchange.send(memory(rank(), round), buffers.size(rank(), round) * element_bytes,
                    hosts_.agent(rank(), host));
    }
  }
  exchange.check_headers();
  for (int64_t round = 0; round < buffers.rounds; ++round) {
    exchange.wait(receives[round]);
    if (within_) distribute_within_host(call, full, buffers, round);
  }
}

void HierarchicalBackend::distribute_within_host(const Call& call, const at::Tensor& full,
                                                 const Buffers& buffers, int64_t round) {
  const int own_place = hosts_.place[rank()];
  for (int row = 0; row < num_rows(); ++row) {
    const at::Tensor staged =
        stage(full, buffers, round, row,
              [&](int member, const std::byte* buffer, std::byte* place, int64_t bytes) {
                if (member == own_place) std::memcpy(place, buffer, bytes);
              });
    within_last().all_gather(call, staged, row_counts(buffers, round, row));
    stage(full, buffers, round, row,
          [&](int member, std::byte* buffer, const std::byte* place, int64_t bytes) {
            if (member != own_place) std::memcpy(buffer, place, bytes);
          });
  }
}

void HierarchicalBackend::all_reduce(const Call& call, const at::Tensor& tensor) {
  const std::vector<int64_t> counts = even_counts(tensor.numel(), size());
  const int64_t element_bytes = tensor.element_size();
  Exchange& exchange = begin_between(call);
  announce(exchange, counts, c10::elementSize(accumulation_type(call.type)), element_bytes);
  std::byte* own_part = memory_of(tensor) + offsets_of(counts)[rank()] * element_bytes;
  HostSums(*this, exchange, call, tensor, own_part, call.type, counts).run();
  gather(exchange, call, tensor, counts);
  end(call, exchange);
}

void HierarchicalBackend::reduce_scatter(const Call& call, const at::Tensor& full,
                                         const at::Tensor& part, Counts counts) {
  Exchange& exchange = begin_between(call);
  announce(exchange, counts, c10::elementSize(accumulation_type(call.type)), 0);
  HostSums(*this, exchange, call, full, memory_of(part), part.scalar_type(), counts).run();
  end(call, exchange);
}

void HierarchicalBackend::all_gather(const Call& call, const at::Tensor& full, Counts counts) {
  Exchange& exchange = begin_between(call);
  announce(exchange, counts, 0, full.element_size());
  gather(exchange, call, full, counts);
  end(call, exchange);
}

// The ranks of a host agree on the call first. At the end, they learn that all succeeded.
void HierarchicalBackend::all_to_all(const Call& call, const at::Tensor& send, Counts send_counts,
                                     const at::Tensor& receive, Counts receive_counts) {
  if (within_) within_first().barrier(call);
  set_grace(grace_);
  PointToPointBackend::all_to_all(call, send, send_counts, receive, receive_counts);
  set_grace({});
  if (within_) within_last().barrier(call);
}

void HierarchicalBackend::broadcast(const Call& call, const at::Tensor& tensor, int root) {
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  const Buffers buffers(Counts(&bytes, 1), buffer_elements(1));
  const int own = hosts_.host[rank()], first = hosts_.host[root], n = hosts_.size();
  const int agent = hosts_.agent(root, own);
  const int next = (own + 1) % n, previous = (own + n - 1) % n;
  const bool receives = rank() == agent && rank() != root;
  const bool sends = rank() == agent && next != first;
  const auto memory = [&](int64_t round) { return memory_of(tensor) + buffers.begin(0, round); };

  Exchange& exchange = begin_between(call);
  std::vector<std::vector<TransferPointer>> arrivals(buffers.rounds);
  if (receives) {
    const int from = hosts_.agent(root, previous);
    exchange.expect(from, bytes);
    for (int64_t round = 0; round < buffers.rounds; ++round) {
      arrivals[round] = exchange.receive(memory(round), buffers.size(0, round), from);
    }
  }
  if (sends) exchange.send_header(hosts_.agent(root, next), bytes);
  exchange.check_headers();
  for (int64_t round = 0; round < buffers.rounds; ++round) {
    const int64_t count = buffers.size(0, round);
    exchange.wait(arrivals[round]);
    if (sends) exchange.send(memory(round), count, hosts_.agent(root, next));
    if (within_) {
      within_last().broadcast(call, view_of(memory(round), count, at::kByte), hosts_.place[agent]);
    }
  }
  end(call, exchange);
}

// When the first ranks of all hosts have met, all ranks have arrived.
void HierarchicalBackend::barrier(const Call& call) {
  if (within_) within_first().barrier(call);
  if (hosts_.place[rank()] == 0) {
    Exchange& exchange = begin_between(call);
    for (const std::vector<int>& host : hosts_.members) {
      if (host[0] == rank()) continue;
      exchange.expect(host[0], 0);
      exchange.send_header(host[0], 0);
    }
    exchange.check_headers();
    end(call, exchange);
  }
  if (within_) within_last().barrier(call);
}

void HierarchicalBackend::begin_messages() {
  if (within_) within_->begin_messages();
  between_->begin_messages();
}

void HierarchicalBackend::end_group(const std::string& why) {
  if (within_) within_->close(why);
  between_->close(why);
}

void HierarchicalBackend::abort(const std::string& why) {
  if (within_) within_->abort(why);
  between_->abort(why);
}

TransferPointer HierarchicalBackend::post_send(Kind kind, const void* memory, int64_t bytes,
                                               int to) {
  return hosts_.host[to] == hosts_.host[rank()]
             ? within_->transport().post_send(kind, memory, bytes, hosts_.place[to])
             : between_->transport().post_send(kind, memory, bytes, to);
}

TransferPointer HierarchicalBackend::post_receive(Kind kind, void* memory, int64_t bytes,
                                                  int from) {
  return hosts_.host[from] == hosts_.host[rank()]
             ? within_->transport().post_receive(kind, memory, bytes, hosts_.place[from])
             : between_->transport().post_receive(kind, memory, bytes, from);
}

}  // namespace colossal::comm
