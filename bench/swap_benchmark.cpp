// The bandwidth of SwapFile. Prints what it measures and how, then measures what each line of its
// input asks for: "read", "write", or "mixed" (one of each in turn) over the whole file, once.
//   swap_benchmark DIRECTORY BYTES [threads] [small-pages] [computing]
#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "colossal/io/swap_file.h"
#include "colossal/io/transfer_memory.h"
#include "colossal/io/transfer_queue.h"

namespace colossal::io {
namespace {

// A chunk of the memory manager, and as many as it moves ahead.
constexpr int64_t kBuffer = int64_t{16} << 20;
constexpr int64_t kNumBuffers = 6;

class Buffers {
 public:
  explicit Buffers(PageSize pages) : memory_(kBuffer * kNumBuffers, pages) {
    uint32_t value = 0;
    for (std::byte& byte : memory_.bytes())
      byte = static_cast<std::byte>(value++ * 2654435761U >> 16);
  }
  std::span<std::byte> operator[](int64_t buffer) const {
    return memory_.bytes().subspan(static_cast<size_t>(buffer % kNumBuffers * kBuffer),
                                   static_cast<size_t>(kBuffer));
  }

 private:
  TransferMemory memory_;
};

// While it lives, every core multiplies matrices, as in training.
class Products {
 public:
  Products() {
    for (unsigned core = 0; core < std::thread::hardware_concurrency(); ++core) {
      threads_.emplace_back([](const std::stop_token& stop) {
        at::set_num_threads(1);
        const at::Tensor a = at::full({256, 256}, 1.0F), b = at::full({256, 256}, 1.0F);
        at::Tensor product = at::mm(a, b);
        while (!stop.stop_requested()) at::mm_out(product, a, b);
      });
    }
  }

 private:
  std::vector<std::jthread> threads_;
};

// Bytes a second, in 1e9.
double measure(SwapFile& file, const Buffers& buffers, const std::string& what) {
  std::vector<SwapFile::Transfer> transfers(kNumBuffers);
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < file.bytes() / kBuffer; ++i) {
    auto& transfer = transfers[static_cast<size_t>(i % kNumBuffers)];
    file.wait(transfer);
    const bool read = what == "read" || (what == "mixed" && i % 2 == 0);
    transfer = read ? file.read(i * kBuffer, buffers[i]) : file.write(i * kBuffer, buffers[i]);
  }
  for (const auto& transfer : transfers) file.wait(transfer);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return static_cast<double>(file.bytes()) / elapsed.count() * 1e-9;
}

void run(const char* directory, int64_t bytes, SwapMethod method, PageSize pages) {
  SwapFile file(directory, bytes / kBuffer * kBuffer, method);
  const Buffers buffers(pages);
  const int depth = file.method().starts_with("threads") ? kTransferThreads : kTransferDepth;
  const double first = measure(file, buffers, "write");
  std::cout << fmt::format(R"({{"method": "{}", "block": {}, "depth": {}, "bytes": {}, )"
                           R"("descriptor": {}, "first_write": {:.4f}}})",
                           file.method(), kTransferBlock, depth, file.bytes(), file.descriptor(),
                           first)
            << std::endl;
  for (std::string what; std::getline(std::cin, what);) {
    std::cout << measure(file, buffers, what) << std::endl;
  }
}

}  // namespace
}  // namespace colossal::io

int main(int num_arguments, char** arguments) {
  using namespace colossal::io;
  if (num_arguments < 3) {
    std::fprintf(stderr,
                 "usage: swap_benchmark DIRECTORY BYTES [threads] [small-pages] [computing]\n");
    return 2;
  }
  const std::set<std::string> options(arguments + 3, arguments + num_arguments);
  try {
    std::optional<Products> products;
    if (options.contains("computing")) products.emplace();
    run(arguments[1], std::atoll(arguments[2]),
        options.contains("threads") ? SwapMethod::threads : SwapMethod::automatic,
        options.contains("small-pages") ? PageSize::small : PageSize::huge);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
