#include "colossal/plan/measure_cluster.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "colossal/base/machine.h"
#include "colossal/comm/gpus.h"
#include "colossal/comm/link_rate.h"
#include "colossal/comm/world.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/ops/activation.h"
#include "colossal/ops/attention/attention.h"
#include "colossal/ops/loss/linear_cross_entropy.h"
#include "colossal/ops/norm/norm.h"

namespace colossal::plan {
namespace {

using Seconds = std::chrono::duration<double>;
using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLength{60};  // of each measurement
constexpr std::chrono::seconds kLinkTimeout{20};

// Measures on all devices that compute at the same time in training: one GPU, or all cores.
class Stopwatch {
 public:
  explicit Stopwatch(at::Device device)
      : device_(device), threads_(device.is_cpu() ? machine::available_cores() : 1) {}

  at::Device device() const { return device_; }

  // make: returns the work to measure, a function. Each thread makes its own, and repeats it for
  // the time kLength. Returns the seconds of the fastest repetition, as the mean over the threads.
  using Work = std::function<void()>;
  double seconds(const std::function<Work()>& make) const {
    std::barrier all_ready(threads_);
    std::mutex mutex;
    double sum = 0;
    const auto measure = [&] {
      at::set_num_threads(1);
      const Work work = make();
      work();  // warm-up
      synchronize();
      all_ready.arrive_and_wait();
      std::vector<double> times;
      for (const auto begin = SteadyClock::now();
           times.size() < 3 || SteadyClock::now() - begin < kLength;) {
        const auto start = SteadyClock::now();
        work();
        synchronize();
        times.push_back(Seconds(SteadyClock::now() - start).count());
      }
      const std::lock_guard lock(mutex);
      sum += std::ranges::min(times);
    };
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < threads_; ++i) threads.emplace_back(measure);
    }
    return sum / threads_;
  }

 private:
  void synchronize() const {
    if (device_.is_cpu()) return;
    c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
  }

  at::Device device_;
  int threads_;
};

// A file that people read needs no more digits than the measurement has.
double rounded(double value) {
  return std::strtod(fmt::format("{:.3g}", value).c_str(), nullptr);
}

double product_rate(const Stopwatch& watch, at::ScalarType type, int64_t rows, int64_t inner,
                    int64_t columns) {
  const at::TensorOptions options = at::TensorOptions(type).device(watch.device());
  const double seconds = watch.seconds([&]() -> Stopwatch::Work {
    const at::Tensor a = at::rand({rows, inner}, options), b = at::rand({inner, columns}, options);
    return [=, out = at::empty({rows, columns}, options)]() mutable { at::mm_out(out, a, b); };
  });
  return 2.0 * static_cast<double>(rows * inner * columns) / seconds;
}

struct Sizes {
  int64_t batch, heads, sequence, hidden;
};
// Of a layer of a usual model on this device.
Sizes sizes_on(at::Device device) {
  return device.is_cpu() ? Sizes{4, 4, 512, 768} : Sizes{4, 16, 4096, 4096};
}

// The FLOPs of causal attention, forward; the backward pass has 2.5 times as many.
double attention_flops(const Sizes& sizes, int64_t head_size) {
  const auto pairs = static_cast<double>(sizes.sequence * (sizes.sequence + 1)) / 2;
  return 4 * pairs * static_cast<double>(sizes.batch * sizes.heads * head_size);
}

void measure_attention(const Stopwatch& watch, at::ScalarType type, ComputeRates& rates) {
  constexpr int64_t kHeadSize = 64;
  const Sizes sizes = sizes_on(watch.device());
  const at::TensorOptions options = at::TensorOptions(type).device(watch.device());
  const auto make = [&](bool backward) {
    return [&, backward]() -> Stopwatch::Work {
      std::vector<at::Tensor> inputs;
      for (int i = 0; i < 3; ++i) {
        inputs.push_back(at::rand({sizes.batch, sizes.heads, sizes.sequence, kHeadSize}, options));
        inputs.back().requires_grad_(backward);
      }
      return [inputs, backward, gradient = at::ones_like(inputs[0], at::TensorOptions())] {
        const at::AutoGradMode mode(backward);
        const at::Tensor output = ops::attention(inputs[0], inputs[1], inputs[2], {.causal = true});
        if (backward) output.backward(gradient);
      };
    };
  };
  const double forward = watch.seconds(make(false));
  const double both = watch.seconds(make(true));
  const double flops = attention_flops(sizes, kHeadSize);
  rates.attention = rounded(flops / forward);
  rates.attention_backward = rounded(2.5 * flops / std::max(both - forward, forward / 2));
}

// The rate of a residual addition with a norm, and of an activation.
double element_rate(const Stopwatch& watch, at::ScalarType type) {
  const Sizes sizes = sizes_on(watch.device());
  const at::TensorOptions options = at::TensorOptions(type).device(watch.device());
  const int64_t rows = sizes.batch * sizes.sequence;
  const auto bytes = static_cast<double>(rows * sizes.hidden * c10::elementSize(type));
  const double seconds = watch.seconds([&]() -> Stopwatch::Work {
    const at::Tensor x = at::rand({rows, sizes.hidden}, options),
                     weight = at::rand({sizes.hidden}, options);
    return [=] {
      const at::NoGradGuard no_grad;
      ops::add_rms_norm(x, x, weight, 1e-5);
      at::add(x, x);
    };
  });
  // The norm reads two tensors and writes two; the addition reads two and writes one.
  return 7 * bytes / seconds;
}

double operator_seconds(const Stopwatch& watch) {
  constexpr int kCalls = 1000;
  return watch.seconds([&]() -> Stopwatch::Work {
    const at::Tensor x = at::zeros({1}, at::TensorOptions(at::kFloat).device(watch.device()));
    return [=] {
      for (int i = 0; i < kCalls; ++i) at::add(x, x);
    };
  }) / kCalls;
}

// Returns the logits/s of a cross-entropy with gradients, without its matrix products.
double logit_rate(const Stopwatch& watch, at::ScalarType type) {
  constexpr int64_t kTokens = 512, kHidden = 64, kVocabulary = 4096;
  const at::TensorOptions options = at::TensorOptions(type).device(watch.device());
  const double seconds = watch.seconds([&]() -> Stopwatch::Work {
    const at::Tensor x = at::rand({kTokens, kHidden}, options).requires_grad_(),
                     weight = at::rand({kVocabulary, kHidden}, options).requires_grad_(),
                     labels = at::zeros({kTokens}, options.dtype(at::kLong));
    return [=] {
      const at::AutoGradMode mode(true);
      ops::linear_cross_entropy(x, weight, labels).backward();
    };
  });
  const double of_products = 2.0 * kTokens * kHidden * kVocabulary *
                             (1 / product_rate(watch, type, kTokens, kHidden, kVocabulary) +
                              2 / product_rate(watch, type, kTokens, kVocabulary, kHidden));
  return kTokens * kVocabulary / std::max(seconds - of_products, seconds / 4);
}

// Bytes/s of copies in host memory.
double copy_rate(const Stopwatch& watch) {
  constexpr int64_t kBytes = 16 << 20;
  return kBytes / watch.seconds([&]() -> Stopwatch::Work {
    const at::Tensor host = at::zeros({kBytes}, at::kByte);
    const at::Tensor there = host.to(watch.device(), false, true);
    return [=]() mutable { host.copy_(there); };
  });
}

void measure_type(const Stopwatch& watch, at::ScalarType type, const KnownRates& known,
                  ComputeRates& rates) {
  const bool cpu = watch.device().is_cpu();
  const auto products = known.products.find(type);
  if (cpu && products != known.products.end()) {
    rates.products = rounded(products->second / machine::available_cores());
  } else {
    rates.products = rounded(cpu ? product_rate(watch, type, 1024, 768, 3072)
                                 : product_rate(watch, type, 8192, 8192, 8192));
  }
  measure_attention(watch, type, rates);
  rates.elements = rounded(element_rate(watch, type));
}

}  // namespace

ClusterSpecification measure_cluster(const KnownRates& known) {
  memory::install_allocators();
  const bool cpu = comm::num_gpus() == 0;
  const Stopwatch watch(cpu ? at::Device(at::kCPU) : at::Device(at::kCUDA, 0));
  ClusterSpecification cluster;
  cluster.hosts.cores = cpu ? machine::available_cores() : 0;
  cluster.hosts.memory =
      ByteSize{cpu ? machine::total_memory_bytes() : comm::gpus()[0].memory_bytes};
  measure_type(watch, at::kBFloat16, known, cluster.bf16);
  measure_type(watch, at::kFloat, known, cluster.fp32);
  measure_type(watch, at::kDouble, known, cluster.fp64);
  // Products with one short side, from which the size with half of the rate follows.
  constexpr int64_t kShort = 64;
  const double small = product_rate(watch, at::kFloat, 1024, kShort, 1024);
  cluster.device.half_rate_size =
      rounded(std::max(0.0, kShort * (*cluster.fp32.products / small - 1)));
  cluster.device.operator_seconds = rounded(operator_seconds(watch));
  cluster.device.logits = rounded(logit_rate(watch, at::kFloat));
  cluster.links.host_bandwidth = rounded(copy_rate(watch));
  if (known.nvme_bandwidth) cluster.links.nvme_bandwidth = rounded(*known.nvme_bandwidth);
  if (cpu) {
    const comm::LinkRate link = known.link ? *known.link : comm::measure_link("shm", kLinkTimeout);
    cluster.links.latency = rounded(link.latency);
    cluster.links.bandwidth = rounded(link.bandwidth);
  } else {
    cluster.hosts.ranks = comm::num_gpus();
    cluster.links.overlap = 0.9;
  }
  return cluster;
}

}  // namespace colossal::plan
