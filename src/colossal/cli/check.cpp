#include <ATen/Parallel.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "colossal/base/cpu_features.h"
#include "colossal/base/error.h"
#include "colossal/base/machine.h"
#include "colossal/base/units.h"
#include "colossal/cli/command.h"
#include "colossal/comm/gpus.h"
#include "colossal/comm/link_rate.h"
#include "colossal/comm/world.h"
#include "colossal/io/file.h"
#include "colossal/io/swap_file.h"
#include "colossal/io/transfer_memory.h"
#include "colossal/ops/product/gemm_rate.h"
#include "colossal/plan/measure_cluster.h"

namespace colossal::cli {
namespace {

using Clock = std::chrono::steady_clock;

void print(const char* name, const std::string& value) {
  fmt::print("  {:<22} {}\n", name, value);
}

void print_machine() {
  fmt::print("machine\n");
  print("host", machine::host_name());
  print("CPU", machine::cpu_model_name());
  print("cores", std::to_string(machine::available_cores()));
  print("memory", fmt::format("{}, {} available", format_bytes(machine::total_memory_bytes()),
                              format_bytes(machine::available_memory_bytes())));
  print("instructions", name_of(widest_instruction_set()));
  print("bf16 products", has_bf16_instructions() ? "yes: precision.compute = \"auto\" is bf16"
                                                 : "no: precision.compute = \"auto\" is fp32");
  print("LibTorch", TORCH_VERSION);
  const std::vector<comm::Gpu> gpus = comm::gpus();
  if (gpus.empty()) print("GPUs", "none that this build can use");
  for (size_t i = 0; i < gpus.size(); ++i) {
    print(fmt::format("GPU {}", i).c_str(),
          fmt::format("{}, {}", gpus[i].name, format_bytes(gpus[i].memory_bytes)));
  }
}

// Prints rates of matrix products, and keeps those of all cores.
void print_gemm_rates(plan::KnownRates& known) {
  const int cores = machine::available_cores();
  fmt::print("\nmatrix products, GFLOP/s      1 thread   {} threads\n", cores);
  const std::pair<const char*, at::ScalarType> types[] = {
      {"bf16", at::kBFloat16}, {"fp32", at::kFloat}, {"fp64", at::kDouble}};
  for (const auto& [name, type] : types) {
    double rates[2];
    for (int i = 0; i < 2; ++i) {
      at::set_num_threads(i == 0 ? 1 : cores);
      rates[i] = ops::measure_gemm_rate(type, std::chrono::milliseconds(200)) / 1e9;
    }
    known.products[type] = rates[1] * 1e9;
    fmt::print("  {:<22} {:>11.0f} {:>11.0f}\n", name, rates[0], rates[1]);
  }
  if (comm::num_gpus() == 0) return;
  fmt::print("\nmatrix products on GPU 0, TFLOP/s\n");
  for (const auto& [name, type] : types) {
    const double rate =
        ops::measure_gemm_rate(type, std::chrono::milliseconds(200), {at::kCUDA, 0});
    fmt::print("  {:<22} {:>11.1f}\n", name, rate / 1e12);
  }
}

// Prints rates of links, and keeps those of shared memory.
void print_link_rates(plan::KnownRates& known) {
  fmt::print("\nlinks, all-reduce over 2 ranks     4 KiB      16 MiB\n");
  const std::pair<const char*, const char*> links[] = {
      {"shared memory", "shm"}, {"gloo, loopback", "gloo"}, {"threads", "local"}};
  for (const auto& [name, backend] : links) {
    const comm::LinkRate rate = comm::measure_link(backend, std::chrono::seconds(20));
    fmt::print("  {:<22} {:>10.0f} us {:>6.2f} GB/s\n", name, rate.latency * 1e6,
               rate.bandwidth / 1e9);
    if (std::string_view(backend) == "shm") known.link = rate;
  }
}

// Measures what plans need besides, and writes all of it.
void write_cluster(const std::string& path, const plan::KnownRates& known) {
  const plan::ClusterSpecification cluster = plan::measure_cluster(known);
  io::write_file_atomically(path, plan::cluster_file(cluster));
  fmt::print(
      "\nwrote {}, with the rates above: the fastest of several tries; use it with colossal plan "
      "RUN.toml --cluster={}\n",
      path, path);
}

// Prints how the NVMe tier would transfer bytes in this directory, and how fast: with buffers as
// large as chunks, all under way at once. Keeps the slower of the rates of writes and reads.
void print_disk(const std::string& directory, plan::KnownRates& known) {
  constexpr int64_t kBuffer = int64_t{16} << 20, kBuffers = 16;
  constexpr int kTries = 3;
  fmt::print("\ndisk, as memory.nvme_path\n");
  print("directory", std::filesystem::canonical(directory));
  try {
    std::vector<io::TransferMemory>
        buffers;  // destroyed after the file, whose transfers may use them
    io::SwapFile file(directory, kBuffer * kBuffers);
    print("transfers", file.method());
    for (int64_t i = 0; i < kBuffers; ++i) {
      std::ranges::fill(buffers.emplace_back(kBuffer).bytes(), static_cast<std::byte>(i + 1));
    }
    const auto rate = [&](const auto& begin_transfer) {
      const Clock::time_point start = Clock::now();
      std::vector<io::SwapFile::Transfer> under_way;
      for (int64_t i = 0; i < kBuffers; ++i) {
        under_way.push_back(begin_transfer(i * kBuffer, buffers[i].bytes()));
      }
      for (const io::SwapFile::Transfer& transfer : under_way) file.wait(transfer);
      return kBuffer * kBuffers / std::chrono::duration<double>(Clock::now() - start).count();
    };
    const auto write = [&](int64_t at, auto buffer) { return file.write(at, buffer); };
    const auto read = [&](int64_t at, auto buffer) { return file.read(at, buffer); };
    const auto show = [](const char* name, double bytes_per_second) {
      print(name, fmt::format("{:.2f} GB/s", bytes_per_second / 1e9));
    };
    show("first writes", rate(write));
    double writes = 0, reads = 0;
    for (int i = 0; i < kTries; ++i) {
      writes = std::max(writes, rate(write));
      reads = std::max(reads, rate(read));
    }
    show("writes", writes);
    show("reads", reads);
    known.nvme_bandwidth = std::min(writes, reads);
  } catch (const IoError& error) {
    print("transfers", fmt::format("none: {}", error.what()));
  }
}

}  // namespace

void add_check(CLI::App& app, int&) {
  CLI::App* command =
      app.add_subcommand("check",
                         "Show this machine's hardware, what works on it, and how fast it "
                         "multiplies matrices, communicates and writes to disk");
  const auto directory = std::make_shared<std::string>(".");
  command
      ->add_option("--nvme", *directory,
                   "A folder on the disk to measure, the one that memory.nvme_path would use")
      ->capture_default_str()
      ->check(CLI::ExistingDirectory);
  const auto cluster = std::make_shared<std::string>();
  command
      ->add_option("--cluster", *cluster,
                   "Also measure what plans need to predict the time of a step on this machine, "
                   "and write it to this file, for `colossal plan --cluster=FILE`")
      ->type_name("FILE");
  command->callback([directory, cluster] {
    print_machine();
    plan::KnownRates known;
    print_gemm_rates(known);
    print_link_rates(known);
    print_disk(*directory, known);
    if (!cluster->empty()) write_cluster(*cluster, known);
  });
}

}  // namespace colossal::cli
