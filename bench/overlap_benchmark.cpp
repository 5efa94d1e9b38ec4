// How much of the time that collectives take is hidden under computing: trains two ranks as threads
// with and without a delay before each collective of a chunk, or before each hop of a ring, and
// prints by how much the step grows. Blocks of two steps with and without the delay take turns, so
// that a machine that is shared slows both.
//   overlap_benchmark [MILLISECONDS] [PAIRS OF BLOCKS] [ZERO STAGE | ring] [DIRECTORY]
// Writes a timeline of steps with the delay to DIRECTORY.
#include <ATen/Parallel.h>
#include <ATen/ops/randint.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "colossal/base/cpu_features.h"
#include "colossal/comm/group_impl.h"
#include "colossal/data/text_batch.h"
#include "colossal/engine/engine.h"
#include "colossal/models/assembly.h"
#include "colossal/models/families.h"
#include "colossal/training/profiler.h"

namespace colossal {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr int kRanks = 2;
constexpr int64_t kMeasuredSteps = 2;  // of a block, after one that is not: in it delays change

// What is trained, and which calls wait.
struct Setting {
  Strategy strategy;
  int64_t sequence, sequences;  // of a replica's batch
  std::vector<comm::Reason> waiting;
  const char* calls;  // those, for people
};

// "ring", or a ZeRO stage.
Setting setting_of(const std::string& what) {
  if (what == "ring")
    return {{.dp = 1, .sp = kRanks}, 4096, 1, {comm::Reason::sequence}, "hops of a ring"};
  return {{.dp = kRanks, .zero = std::stoi(what)},
          256,
          2,
          {comm::Reason::gradient, comm::Reason::parameter},
          "collectives of chunks"};
}

struct Delay {
  std::vector<comm::Reason> reasons;
  Milliseconds length{0};
  int64_t delayed = 0;  // calls
};

// Waits, without computing, before what a chunk or a ring sends.
class DelayedBackend final : public comm::Backend {
 public:
  DelayedBackend(comm::Membership membership, std::shared_ptr<comm::Ledger> ledger,
                 comm::Group group, Delay& delay)
      : Backend(std::move(membership), std::move(ledger), std::chrono::hours(1)),
        group_(std::move(group)),
        delay_(delay) {}

  void all_reduce(const comm::Call& call, const at::Tensor& tensor) override {
    wait(call);
    inner().all_reduce(call, tensor);
  }
  void reduce_scatter(const comm::Call& call, const at::Tensor& full, const at::Tensor& part,
                      comm::Counts counts) override {
    wait(call);
    inner().reduce_scatter(call, full, part, counts);
  }
  void all_gather(const comm::Call& call, const at::Tensor& full, comm::Counts counts) override {
    wait(call);
    inner().all_gather(call, full, counts);
  }
  void all_to_all(const comm::Call& call, const at::Tensor& send, comm::Counts send_counts,
                  const at::Tensor& receive, comm::Counts receive_counts) override {
    inner().all_to_all(call, send, send_counts, receive, receive_counts);
  }
  void rotate(const comm::Call& call, const at::Tensor& send, const at::Tensor& receive) override {
    wait(call);
    inner().rotate(call, send, receive);
  }
  void broadcast(const comm::Call& call, const at::Tensor& tensor, int root) override {
    inner().broadcast(call, tensor, root);
  }
  void send(const comm::Call& call, const at::Tensor& tensor, int to) override {
    inner().send(call, tensor, to);
  }
  void receive(const comm::Call& call, const at::Tensor& tensor, int from) override {
    inner().receive(call, tensor, from);
  }
  void barrier(const comm::Call& call) override { inner().barrier(call); }
  void close(const std::string& why) override { inner().close(why); }

 private:
  comm::Backend& inner() { return *group_.impl().backend; }
  void wait(const comm::Call& call) {
    if (std::ranges::find(delay_.reasons, call.reason) == delay_.reasons.end()) return;
    ++delay_.delayed;
    std::this_thread::sleep_for(delay_.length);
  }

  comm::Group group_;
  Delay& delay_;
};

class DelayedWorld final : public comm::World {
 public:
  DelayedWorld(comm::World& world, Delay& delay) : world_(world), delay_(delay) {}
  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  const char* backend() const override { return "delayed"; }
  comm::Group group(const std::string& axis, const std::vector<int>& ranks) override {
    const comm::Membership membership = comm::membership_of(*this, axis, ranks);
    return comm::make_group(backend(), ledger_, membership, [&] {
      return std::make_shared<DelayedBackend>(membership, ledger_, world_.group(axis, ranks),
                                              delay_);
    });
  }
  void abort(const std::string& why) override { world_.abort(why); }

 private:
  comm::World& world_;
  Delay& delay_;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

// Rank 0 prints.
void train(comm::World& local, Milliseconds length, int64_t pairs, const Setting& setting,
           const std::filesystem::path& traces) {
  at::set_num_threads(1);
  Delay delay{.reasons = setting.waiting};
  DelayedWorld world(local, delay);
  const ParallelContext context(world, setting.strategy);
  const auto specification = models::resolve_model(
      {.preset = "gpt2-124m",
       .overrides = {{"vocab_size", 512}, {"n_positions", setting.sequence}}});
  const models::Assembly assembly = models::assemble(specification, context);
  EngineConfig config;
  config.total_steps = 2 * pairs * (kMeasuredSteps + 1);
  config.precision = resolve_precision({}, has_bf16_instructions(), /*micro_batches=*/1);
  config.global_batch = setting.strategy.dp * setting.sequences;
  Engine engine(assembly.parameters(), stages_of(*assembly.model, context.strategy()), context,
                config);
  engine.chunks().initialise(config.seed);
  data::Batch batch;
  batch.set(data::kTokens, at::randint(512, {setting.sequences, setting.sequence}, at::kLong), 1);
  batch.set(data::kLabels, at::randint(512, {setting.sequences, setting.sequence}, at::kLong), 1);
  batch.sample_ids.resize(setting.sequences);
  std::iota(batch.sample_ids.begin(), batch.sample_ids.end(),
            context.coordinate(Axis::dp) * setting.sequences);

  int64_t calls = 0;
  const auto block = [&](Milliseconds wait) {  // milliseconds of a step
    delay.length = wait;
    engine.step({batch});
    const Clock::time_point start = Clock::now();
    for (int64_t step = 0; step < kMeasuredSteps; ++step) engine.step({batch});
    const Milliseconds time = Clock::now() - start;
    engine.chunks().synchronize();
    calls = std::exchange(delay.delayed, 0) / (kMeasuredSteps + 1);
    return time.count() / kMeasuredSteps;
  };
  std::vector<double> plain, growth;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const bool plain_first = pair % 2 == 0;  // which comes first takes turns too
    double delayed = plain_first ? 0 : block(length);
    plain.push_back(block(Milliseconds(0)));
    if (plain_first) delayed = block(length);
    growth.push_back(delayed - plain.back());
  }
  if (!traces.empty()) {
    std::optional<Profiler> profiler;
    if (world.rank() == 0) profiler.emplace(traces, 0);
    block(length);
    if (profiler) profiler->stop(kMeasuredSteps + 1);
  }
  if (world.rank() != 0) return;
  const double added = static_cast<double>(calls) * length.count();
  std::printf(
      "%lld %s, %.0f ms before each: %.0f ms added to a step of %.0f ms; it grows by %.0f ms, %.0f "
      "%% "
      "of what was added (median of %lld pairs)\n",
      static_cast<long long>(calls), setting.calls, length.count(), added, median(plain),
      median(growth), 100 * median(growth) / added, static_cast<long long>(pairs));
}

}  // namespace
}  // namespace colossal

int main(int argc, char** argv) {
  using namespace colossal;
  const Milliseconds length(argc > 1 ? std::stod(argv[1]) : 5.0);
  const int64_t pairs = argc > 2 ? std::stoll(argv[2]) : 15;
  const Setting setting = setting_of(argc > 3 ? argv[3] : "1");
  const std::filesystem::path traces = argc > 4 ? argv[4] : "";
  // Before the run, not after it: a directory that cannot be made should not cost the measurement.
  if (!traces.empty()) std::filesystem::create_directories(traces);
  auto worlds = comm::local_worlds(kRanks, std::chrono::hours(1));
  std::vector<std::jthread> threads;
  for (auto& world : worlds)
    threads.emplace_back([&world, length, pairs, setting, traces] {
      train(*world, length, pairs, setting, traces);
    });
}
