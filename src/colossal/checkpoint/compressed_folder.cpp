#include "colossal/checkpoint/compressed_folder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/checkpoint/tensor_bytes.h"
#include "colossal/checkpoint/tensor_values.h"

namespace colossal::checkpoint {
namespace {

using Type = ops::Quantization::Type;

constexpr int64_t kBitsOfWord = 32;

int64_t bits_of(Type type) {
  return type == Type::int4 ? 4 : 8;
}

int64_t words(int64_t codes, Type type) {
  return (codes * bits_of(type) + kBitsOfWord - 1) / kBitsOfWord;
}

// Returns the name of the module that a tensor belongs to.
std::string module_of(const std::string& tensor) {
  return tensor.substr(0, tensor.rfind('.'));
}

// Packs codes [rows, n] (uint8) into words [rows, words] (int32), the first code in the lowest
// bits.
at::Tensor packed_rows(const at::Tensor& codes, Type type) {
  const int64_t rows = codes.size(0), bytes = 4 * words(codes.size(1), type);
  const at::Tensor padded = at::zeros({rows, bytes * 8 / bits_of(type)}, at::kByte);
  padded.narrow(1, 0, codes.size(1)).copy_(codes);
  if (bits_of(type) == 8) return padded.view(at::kInt);
  const at::Tensor pairs = padded.view({rows, bytes, 2});
  return pairs.select(2, 0)
      .bitwise_or(pairs.select(2, 1).bitwise_left_shift(4))
      .contiguous()
      .view(at::kInt);
}

// Returns the specs of the tensors that store a quantized matrix of this shape and type.
std::vector<io::TensorSpec> specs_of(const io::TensorEntry& entry, const ops::Quantization& how) {
  const int64_t outputs = entry.shape[0], inputs = entry.shape[1];
  const int64_t groups = ops::groups_of_output(inputs, how);
  const bool wide = entry.type == io::ScalarType::f32 || entry.type == io::ScalarType::f64;
  const io::TensorSpec scales{
      entry.name + "_scale", wide ? io::ScalarType::f32 : io::ScalarType::bf16, {outputs, groups}};
  if (how.type == Type::fp8) {
    return {{entry.name, io::ScalarType::f8_e4m3, entry.shape}, scales};
  }
  std::vector<io::TensorSpec> specs{
      {entry.name + "_packed", io::ScalarType::i32, {outputs, words(inputs, how.type)}},
      scales,
      {entry.name + "_shape", io::ScalarType::i64, {2}}};
  if (how.zero_point) {
    specs.push_back(
        {entry.name + "_zero_point", io::ScalarType::i32, {words(outputs, how.type), groups}});
  }
  return specs;
}

int64_t total(const std::vector<Range>& rows) {
  int64_t count = 0;
  for (const Range& run : rows) count += run.size();
  return count;
}

// Copies all rows of `from` to these rows of `to`.
void copy_rows(const at::Tensor& to, const std::vector<Range>& rows, const at::Tensor& from) {
  COLOSSAL_CHECK(total(rows) == from.size(0), "{} rows for {}", from.size(0), total(rows));
  int64_t first = 0;
  for (const Range& run : rows) {
    to.narrow(0, run.begin, run.size()).copy_(from.narrow(0, first, run.size()));
    first += run.size();
  }
}

nlohmann::ordered_json weights_of(const ops::Quantization& how) {
  const bool by_group = how.group > 0;
  return {{"num_bits", bits_of(how.type)},
          {"type", how.type == Type::fp8 ? "float" : "int"},
          {"symmetric", !how.zero_point},
          {"strategy", by_group ? "group" : "channel"},
          {"group_size", by_group ? nlohmann::json(how.group) : nlohmann::json()},
          {"dynamic", false}};
}

}  // namespace

// A file that is being written.
struct CompressedFolder::Shard {
  const io::SafetensorsReader& from;
  io::SafetensorsPlan plan;
  io::File to;
  std::map<std::string, bool> written{};  // of each tensor
};

// A matrix of which only some rows have been written.
struct CompressedFolder::Pending {
  Pending(const io::TensorEntry& entry, const ops::Quantization& how)
      : how(how),
        codes(at::empty(entry.shape, at::kByte)),
        scales(at::empty({entry.shape[0], ops::groups_of_output(entry.shape[1], how)})),
        missing(entry.shape[0]) {
    if (how.zero_point) zeros = at::empty(scales.sizes(), at::kByte);
  }

  ops::Quantization how;
  at::Tensor codes, scales, zeros;  // [outputs, inputs], [outputs, groups]
  int64_t missing;                  // rows
};

CompressedFolder::CompressedFolder(const WeightFolder& source, std::filesystem::path folder,
                                   QuantizedTensors quantized)
    : source_(source), folder_(std::move(folder)), quantized_(std::move(quantized)) {
  io::make_folders(folder_);
  for (const auto& file : source_.files()) add_shard(*file);
  write_index(shards_.size() > 1 ||
              source_.files().front()->path().filename() != "model.safetensors");
}

CompressedFolder::~CompressedFolder() = default;

void CompressedFolder::add_shard(const io::SafetensorsReader& file) {
  std::vector<io::TensorSpec> specs;
  for (const io::TensorEntry& entry : file.entries()) {
    const auto how = quantized_.find(entry.name);
    if (how == quantized_.end()) {
      specs.push_back({entry.name, entry.type, entry.shape});
      continue;
    }
    std::ranges::move(specs_of(entry, how->second), std::back_inserter(specs));
  }
  io::SafetensorsPlan plan = io::plan_safetensors(specs, file.metadata());
  io::File to = io::File::create(folder_ / file.path().filename());
  to.reserve(plan.file_bytes);
  to.write_at(std::as_bytes(std::span(plan.header)), 0);
  auto shard = std::make_unique<Shard>(Shard{file, std::move(plan), std::move(to)});
  for (const io::TensorEntry& entry : shard->plan.entries) shard->written[entry.name] = false;
  shards_.push_back(std::move(shard));
}

void CompressedFolder::write_index(bool several) const {
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

void CompressedFolder::write_bytes(const std::string& tensor, std::span<const std::byte> bytes) {
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

void CompressedFolder::write(const std::string& tensor, const std::vector<Range>& rows,
                             const ops::QuantizedMatrix& matrix) {
  const io::TensorEntry& entry = *source_.find(tensor).entry;
  auto& pending = pending_[tensor];
  if (!pending) pending = std::make_unique<Pending>(entry, quantized_.at(tensor));
  COLOSSAL_CHECK(pending->how == matrix.how, "{} is quantized otherwise than was said", tensor);
  const std::vector<Range> all{{0, entry.shape[0]}};
  const std::vector<Range>& to = rows.empty() ? all : rows;
  copy_rows(pending->codes, to, ops::unpacked_codes(matrix));
  copy_rows(pending->scales, to, matrix.scales);
  if (pending->zeros.defined()) copy_rows(pending->zeros, to, matrix.zeros);
  pending->missing -= matrix.outputs;
  if (pending->missing > 0) return;
  write_whole_matrix(tensor, *pending);
  pending_.erase(tensor);
}

void CompressedFolder::write_whole_matrix(const std::string& tensor, const Pending& pending) {
  const io::TensorEntry& entry = *source_.find(tensor).entry;
  const bool wide = specs_of(entry, pending.how)[1].type == io::ScalarType::f32;
  const at::Tensor scales = pending.scales.to(wide ? at::kFloat : at::kBFloat16).contiguous();
  write_bytes(tensor + "_scale", bytes_of(scales));
  if (pending.how.type == Type::fp8) return write_bytes(tensor, bytes_of(pending.codes));
  // compressed-tensors stores signed codes plus half of their range.
  constexpr int kMiddle = 128;
  const at::Tensor codes =
      pending.how.type == Type::int8 ? pending.codes.bitwise_xor(kMiddle) : pending.codes;
  write_bytes(tensor + "_packed", bytes_of(packed_rows(codes, pending.how.type)));
  write_bytes(tensor + "_shape", std::as_bytes(std::span(entry.shape)));
  if (!pending.zeros.defined()) return;
  write_bytes(tensor + "_zero_point",
              bytes_of(packed_rows(pending.zeros.t(), pending.how.type).t().contiguous()));
}

void CompressedFolder::change(const std::string& tensor, const std::vector<Range>& rows,
                              const at::Tensor& values) {
  at::Tensor& changed = changed_[tensor];
  if (!changed.defined()) {
    const FileTensor stored = source_.find(tensor);
    changed = at::empty(stored.entry->shape, tensor_type(*stored.entry, stored.file->path()));
    stored.file->read(*stored.entry, 0, writable_bytes_of(changed));
  }
  copy_rows(changed, rows.empty() ? std::vector<Range>{{0, changed.size(0)}} : rows, values);
}

void CompressedFolder::finish() {
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

nlohmann::ordered_json compressed_config(const QuantizedTensors& quantized,
                                         const std::vector<std::string>& ignored) {
  // The most frequent form applies to all linear layers. Modules of other forms are named.
  std::vector<std::pair<ops::Quantization, std::vector<std::string>>> forms;
  for (const auto& [tensor, how] : quantized) {
    auto form = std::ranges::find(forms, how, &decltype(forms)::value_type::first);
    if (form == forms.end()) form = forms.insert(form, {how, {}});
    form->second.push_back(module_of(tensor));
  }
  std::ranges::stable_sort(forms, std::ranges::greater(),
                           [](const auto& form) { return form.second.size(); });
  nlohmann::ordered_json groups;
  const char* format = "pack-quantized";
  for (const auto& [how, modules] : forms) {
    if (how.type == Type::fp8) format = "float-quantized";
    const bool first = groups.empty();
    groups[fmt::format("group_{}", groups.size())] = {
        {"targets",
         first ? nlohmann::ordered_json::array({"Linear"}) : nlohmann::ordered_json(modules)},
        {"weights", weights_of(how)},
        {"input_activations", nullptr},
        {"output_activations", nullptr},
        {"format", format}};
  }
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"quantization_status", "compressed"},
          {"config_groups", groups},
          {"ignore", ignored},
          {"kv_cache_scheme", nullptr}};
}

}  // namespace colossal::checkpoint
