#include "colossal/checkpoint/quantized_folder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/checkpoint/tensor_bytes.h"
#include "colossal/checkpoint/tensor_values.h"

namespace colossal::checkpoint {
namespace {

int64_t total(const std::vector<Range>& rows) {
  int64_t count = 0;
  for (const Range& run : rows) count += run.size();
  return count;
}

// Copies rows of `from` to these of `to`.
void copy_rows(const at::Tensor& to, const std::vector<Range>& rows, const at::Tensor& from) {
  COLOSSAL_CHECK(total(rows) == from.size(0), "{} rows for {}", from.size(0), total(rows));
  int64_t first = 0;
  for (const Range& run : rows) {
    to.narrow(0, run.begin, run.size()).copy_(from.narrow(0, first, run.size()));
    first += run.size();
  }
}

}  // namespace

// A file that is being written.
struct QuantizedFolder::Shard {
  const io::SafetensorsReader& from;
  io::SafetensorsPlan plan;
  io::File to;
  std::map<std::string, bool> written{};  // of each tensor
};

// A matrix of which some rows are here.
struct QuantizedFolder::Pending {
  explicit Pending(const QuantizedTensor& weight) : missing(weight.outputs) {
    const int64_t groups = ops::groups_of_output(weight.inputs, weight.how);
    matrix.codes = at::empty({weight.outputs, weight.inputs}, at::kByte);
    matrix.scales = at::empty({weight.outputs, groups});
    if (weight.how.zero_point) matrix.zeros = at::empty(matrix.scales.sizes(), at::kByte);
  }

  UnpackedMatrix matrix;
  int64_t missing;  // rows
};

QuantizedFolder::QuantizedFolder(const WeightFolder& source, std::filesystem::path folder,
                                 const PackedFormat& format, QuantizedTensors quantized)
    : source_(source),
      folder_(std::move(folder)),
      format_(format),
      quantized_(std::move(quantized)) {
  format_.require_writable(quantized_);
  io::make_folders(folder_);
  for (const auto& file : source_.files()) add_shard(*file);
  write_index(shards_.size() > 1 ||
              source_.files().front()->path().filename() != "model.safetensors");
}

QuantizedFolder::~QuantizedFolder() = default;

void QuantizedFolder::add_shard(const io::SafetensorsReader& file) {
  std::vector<io::TensorSpec> specs;
  for (const io::TensorEntry& entry : file.entries()) {
    const auto weight = quantized_.find(entry.name);
    if (weight == quantized_.end()) {
      specs.push_back({entry.name, entry.type, entry.shape});
      continue;
    }
    std::ranges::move(format_.tensors_of(entry.name, weight->second, entry.type),
                      std::back_inserter(specs));
  }
  io::SafetensorsPlan plan = io::plan_safetensors(specs, file.metadata());
  io::File to = io::File::create(folder_ / file.path().filename());
  to.reserve(plan.file_bytes);
  to.write_at(std::as_bytes(std::span(plan.header)), 0);
  auto shard = std::make_unique<Shard>(Shard{file, std::move(plan), std::move(to)});
  for (const io::TensorEntry& entry : shard->plan.entries) shard->written[entry.name] = false;
  shards_.push_back(std::move(shard));
}

void QuantizedFolder::write_index(bool several) const {
  if (!several) return;
  nlohmann::ordered_json index;
  int64_t bytes = 0;
  for (const auto& shard : shards_) {
    for (const io::TensorEntry& entry : shard->plan.entries) {
      bytes += entry.bytes();
      index["weight_map"][entry.name] = shard->from.path().filename().string();
    }
  }
  index["metadata"] = {{"total_size", bytes}};
  io::write_file_atomically(folder_ / "model.safetensors.index.json", index.dump(2) + "\n");
}

void QuantizedFolder::write_bytes(const std::string& tensor, std::span<const std::byte> bytes) {
  for (const auto& shard : shards_) {
    const auto written = shard->written.find(tensor);
    if (written == shard->written.end()) continue;
    const auto entry = std::ranges::find(shard->plan.entries, tensor, &io::TensorEntry::name);
    COLOSSAL_CHECK(static_cast<int64_t>(bytes.size()) == entry->bytes(), "{}: {} bytes of {}",
                   tensor, bytes.size(), entry->bytes());
    shard->to.write_at(bytes, shard->plan.position(*entry));
    written->second = true;
    return;
  }
  COLOSSAL_CHECK(false, "no tensor {} in the folder that is written", tensor);
}

void QuantizedFolder::write(const std::string& tensor, const std::vector<Range>& rows,
                            const ops::QuantizedMatrix& matrix) {
  const QuantizedTensor& weight = quantized_.at(tensor);
  auto& pending = pending_[tensor];
  if (!pending) pending = std::make_unique<Pending>(weight);
  COLOSSAL_CHECK(weight.how == matrix.how, "{} is quantized otherwise than was said", tensor);
  const std::vector<Range> all{{0, weight.outputs}};
  const std::vector<Range>& to = rows.empty() ? all : rows;
  copy_rows(pending->matrix.codes, to, ops::unpacked_codes(matrix));
  copy_rows(pending->matrix.scales, to, matrix.scales);
  if (weight.how.zero_point) copy_rows(pending->matrix.zeros, to, matrix.zeros);
  pending->missing -= matrix.outputs;
  if (pending->missing > 0) return;
  write_whole_matrix(tensor, pending->matrix);
  pending_.erase(tensor);
}

void QuantizedFolder::write_whole_matrix(const std::string& tensor, const UnpackedMatrix& matrix) {
  const QuantizedTensor& weight = quantized_.at(tensor);
  const io::ScalarType type = source_.find(tensor).entry->type;
  const std::vector<io::TensorSpec> specs = format_.tensors_of(tensor, weight, type);
  const std::vector<at::Tensor> encoded = format_.encode(matrix, weight, type);
  for (size_t i = 0; i < specs.size(); ++i) write_bytes(specs[i].name, bytes_of(encoded.at(i)));
}

void QuantizedFolder::change(const std::string& tensor, const std::vector<Range>& rows,
                             const at::Tensor& values) {
  at::Tensor& changed = changed_[tensor];
  if (!changed.defined()) {
    const FileTensor stored = source_.find(tensor);
    changed = at::empty(stored.entry->shape, tensor_type(*stored.entry, stored.file->path()));
    stored.file->read(*stored.entry, 0, writable_bytes_of(changed));
  }
  copy_rows(changed, rows.empty() ? std::vector<Range>{{0, changed.size(0)}} : rows, values);
}

void QuantizedFolder::finish() {
  COLOSSAL_CHECK(pending_.empty(), "rows of {} are missing", pending_.begin()->first);
  for (const auto& [tensor, values] : changed_) write_bytes(tensor, bytes_of(values));
  for (const auto& shard : shards_) {
    for (const io::TensorEntry& entry : shard->plan.entries) {
      if (shard->written.at(entry.name)) continue;
      const io::TensorEntry* stored = shard->from.find(entry.name);
      COLOSSAL_CHECK(stored != nullptr, "{} was never written", entry.name);
      constexpr int64_t kBuffer = int64_t{64} << 20;
      for (int64_t done = 0; done < stored->bytes(); done += kBuffer) {
        const int64_t count = std::min(kBuffer, stored->bytes() - done);
        shard->to.write_at(read_bytes({&shard->from, stored}, done, count),
                           shard->plan.position(entry) + done);
      }
    }
    shard->to.sync();
  }
}

}  // namespace colossal::checkpoint
