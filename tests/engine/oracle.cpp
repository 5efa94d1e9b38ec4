#include "tests/engine/oracle.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <cstdlib>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/checkpoint/tensor_bytes.h"

namespace colossal::test {

void run_oracle(const std::string& script, const std::filesystem::path& directory,
                const std::string& arguments) {
  const std::string command = fmt::format(
      "{0}/.venv/bin/python {0}/tests/engine/{1} {2} {3} 2> {2}/log || (cat {2}/log >&2; exit 1)",
      COLOSSAL_TEST_SOURCE_DIR, script, directory.string(), arguments);
  if (std::system(command.c_str()) != 0) throw IoError("the oracle failed: " + command);
}

at::Tensor read_tensor(const io::SafetensorsReader& file, const std::string& name,
                       at::ScalarType type) {
  const io::TensorEntry* entry = file.find(name);
  COLOSSAL_CHECK(entry, "no {} in {}", name, file.path().string());
  const at::Tensor tensor = at::empty(entry->shape, type);
  const std::span<std::byte> bytes = checkpoint::writable_bytes_of(tensor);
  COLOSSAL_CHECK(std::ssize(bytes) == entry->bytes(), "{} has {} bytes, not {}", name,
                 entry->bytes(), bytes.size());
  file.read(*entry, 0, bytes);
  return tensor;
}

at::Tensor read_parameter(const io::SafetensorsReader& file, const std::string& prefix,
                          const TensorSlice& slice, at::ScalarType type) {
  if (!slice.stacked.empty()) {
    std::vector<at::Tensor> parts;
    for (const std::string& name : slice.stacked) {
      parts.push_back(read_tensor(file, prefix + name, type));
    }
    return at::stack(parts);
  }
  const at::Tensor tensor = read_tensor(file, prefix + slice.name, type);
  if (slice.num_ones > 0) return tensor.flatten(-1 - slice.num_ones);
  if (slice.is_whole()) return tensor;
  if (slice.num_columns > 0) {
    return tensor.narrow(1, slice.columns.begin, slice.columns.size()).contiguous();
  }
  std::vector<at::Tensor> rows;
  for (const Range& run : slice.rows) rows.push_back(tensor.narrow(0, run.begin, run.size()));
  return at::cat(rows);
}

}  // namespace colossal::test
