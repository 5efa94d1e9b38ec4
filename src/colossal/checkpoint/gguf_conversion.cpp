#include "colossal/checkpoint/gguf_conversion.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/checkpoint/gguf_family.h"
#include "colossal/checkpoint/gguf_generation.h"
#include "colossal/checkpoint/gguf_tokenizer.h"
#include "colossal/checkpoint/new_path.h"
#include "colossal/checkpoint/stored_tensor.h"
#include "colossal/io/file.h"
#include "colossal/io/json.h"
#include "colossal/io/tensor_directory.h"
#include "colossal/models/families.h"

namespace colossal::checkpoint {
namespace {

using io::GgufTensor;
using io::GgufType;

// Elements of a tensor that are converted at once.
constexpr int64_t kBufferNumbers = int64_t{16} << 20;

// Copies of elements as fp32: read(first, numbers) fills `numbers`, write(first, numbers) stores
// them.
using ReadNumbers = std::function<void(int64_t first, std::span<float> numbers)>;
using WriteNumbers = std::function<void(int64_t first, std::span<const float> numbers)>;

enum class Direction { to_gguf, to_hf };

// Reorders the rows of heads: in GGUF, row i of a head's first half is followed by row i of its
// second half.
void turn_heads(std::span<float> numbers, int64_t head_rows, int64_t columns, Direction direction) {
  const int64_t half = head_rows / 2;
  const std::vector<float> before(numbers.begin(), numbers.end());
  const auto rows = static_cast<int64_t>(numbers.size()) / columns;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t head = row / head_rows * head_rows, inside = row % head_rows;
    const int64_t in_gguf = head + inside % half * 2 + inside / half;
    const int64_t from = direction == Direction::to_gguf ? row : in_gguf;
    const int64_t to = direction == Direction::to_gguf ? in_gguf : row;
    std::copy_n(before.begin() + from * columns, columns, numbers.begin() + to * columns);
  }
}

// Converts a tensor buffer by buffer, with the changes that GGUF needs. name: in GGUF.
void convert_numbers(const GgufFamily& family, const models::TransformerConfig& config,
                     const std::string& name, const std::vector<int64_t>& shape,
                     Direction direction, const ReadNumbers& read, const WriteNumbers& write) {
  const int64_t head_rows = rows_of_rotary_head(family, name, config);
  const int64_t columns = shape.size() == 1 ? 1 : shape.back();
  int64_t numel = 1;
  for (const int64_t size : shape) numel *= size;
  // Buffers contain whole heads, and whole quantized blocks, which have up to 256 elements.
  const int64_t unit = columns * std::max<int64_t>(1, head_rows) * (shape.size() == 1 ? 256 : 1);
  const int64_t buffer = std::max<int64_t>(1, kBufferNumbers / unit) * unit;
  std::vector<float> numbers;
  for (int64_t first = 0; first < numel; first += buffer) {
    numbers.resize(static_cast<size_t>(std::min(buffer, numel - first)));
    read(first, numbers);
    if (head_rows > 0) turn_heads(numbers, head_rows, columns, direction);
    if (adds_one(family, name)) {
      for (float& number : numbers) number += direction == Direction::to_gguf ? 1.0F : -1.0F;
    }
    write(first, numbers);
  }
}

// Returns the type of these elements in safetensors files; f32 for quantized types.
io::ScalarType scalar_type(GgufType type) {
  if (type == GgufType::f16) return io::ScalarType::f16;
  return type == GgufType::bf16 ? io::ScalarType::bf16 : io::ScalarType::f32;
}

GgufType plain_type(const io::TensorEntry& entry, const std::filesystem::path& path) {
  for (const GgufType type : {GgufType::f32, GgufType::f16, GgufType::bf16}) {
    if (scalar_type(type) == entry.type) return type;
  }
  throw ConfigError(fmt::format("{}: tensor \"{}\" is {}; only F32, F16 and BF16 can be converted",
                                path.string(), entry.name, io::scalar_type_name(entry.type)));
}

std::vector<std::byte> to_blocks(GgufType type, std::span<const float> numbers,
                                 const std::string& name) {
  constexpr float kMostHalf = 65504;
  const auto fits = [&](float number) {
    return std::isfinite(number) && (type != GgufType::f16 || std::abs(number) <= kMostHalf);
  };
  if (!std::ranges::all_of(numbers, fits)) {
    throw ConfigError(fmt::format("tensor \"{}\" has a number that is not finite in {}{}", name,
                                  io::gguf_type_name(type),
                                  type == GgufType::f16 ? "; --type=bf16 has a larger range" : ""));
  }
  const auto count = static_cast<int64_t>(numbers.size());
  std::vector<std::byte> blocks(
      static_cast<size_t>(count / io::elements_per_block(type) * io::bytes_per_block(type)));
  io::write_blocks(type, numbers, blocks);
  return blocks;
}

int64_t place_of(GgufType type, int64_t first) {
  return first / io::elements_per_block(type) * io::bytes_per_block(type);
}

// Returns the value of "general.file_type", which names the type of most matrices.
uint32_t file_type(GgufType type) {
  switch (type) {
    case GgufType::f32:
      return 0;
    case GgufType::f16:
      return 1;
    case GgufType::q4_0:
      return 2;
    case GgufType::q8_0:
      return 7;
    case GgufType::q4_k:
      return 15;
    case GgufType::q6_k:
      return 18;
    case GgufType::bf16:
      return 32;
  }
  return 0;
}

GgufType type_of(const std::string& name, const std::vector<int64_t>& shape, GgufType wanted,
                 bool tied) {
  if (shape.size() < 2 || stays_fp32(name)) return GgufType::f32;
  const bool head = name == (tied ? "token_embd.weight" : "output.weight");
  const GgufType type = wanted == GgufType::q4_k && head ? GgufType::q6_k : wanted;
  return shape.back() % io::elements_per_block(type) == 0 ? type : GgufType::f16;
}

// A tensor of a GGUF file, and the tensors of a folder that it is made of: one, or one per expert.
struct Renamed {
  std::vector<io::TensorDirectory::Tensor> from;
  GgufTensor to;
};

// Returns the shape of the stacked tensors of all experts, given the shape of one expert's tensor.
std::vector<int64_t> stacked_shape(int64_t experts, const std::vector<int64_t>& of_expert) {
  std::vector<int64_t> shape{experts};
  shape.insert(shape.end(), of_expert.begin(), of_expert.end());
  return shape;
}

std::vector<Renamed> tensors_of(const io::TensorDirectory& directory, const GgufFamily& family,
                                const models::ModelSpecification& specification, GgufType type) {
  std::vector<Renamed> renamed;
  std::map<std::string, size_t> of_experts;  // indices in `renamed`
  const bool tied = specification.transformer.tied_head;
  const int64_t experts = specification.transformer.router.experts;
  for (const std::string& name : directory.names()) {
    if (models::explain_unmapped_tensor(specification, name)) continue;
    const auto to = gguf_name(family, name);
    if (!to || to->expert.value_or(0) >= std::max<int64_t>(1, experts)) {
      throw ConfigError(fmt::format("{}: tensor \"{}\" has no name in GGUF files of {}",
                                    directory.path().string(), name, family.name));
    }
    const io::TensorDirectory::Tensor from = directory.find(name);
    const std::vector<int64_t>& shape = from.entry->shape;
    if (!to->expert) {
      renamed.push_back(
          {{from},
           {.name = to->name, .type = type_of(to->name, shape, type, tied), .shape = shape}});
      continue;
    }
    const auto [place, is_new] = of_experts.try_emplace(to->name, renamed.size());
    if (is_new) {
      renamed.push_back({std::vector<io::TensorDirectory::Tensor>(experts),
                         {.name = to->name,
                          .type = type_of(to->name, shape, type, tied),
                          .shape = stacked_shape(experts, shape)}});
    }
    Renamed& of_all = renamed[place->second];
    if (of_all.to.shape != stacked_shape(experts, shape)) {
      throw ConfigError(
          fmt::format("{}: tensor \"{}\" has a different shape than those of other experts",
                      directory.path().string(), name));
    }
    of_all.from[*to->expert] = from;
  }
  return renamed;
}

void write_tensor(const io::TensorDirectory::Tensor& from, int64_t part, const GgufTensor& to,
                  int64_t position, const GgufFamily& family,
                  const models::TransformerConfig& config, io::File& file) {
  const auto& [source, entry] = from;
  if (!entry) {
    throw ConfigError(fmt::format("tensor \"{}\": expert {} is missing", to.name, part));
  }
  const GgufType plain = plain_type(*entry, source->path());
  int64_t numel = 1;
  for (const int64_t size : entry->shape) numel *= size;
  convert_numbers(
      family, config, to.name, entry->shape, Direction::to_gguf,
      [&](int64_t first, std::span<float> numbers) {
        const int64_t bytes = io::bytes_per_block(plain);
        std::vector<std::byte> read(numbers.size() * static_cast<size_t>(bytes));
        source->read(*entry, first * bytes, read);
        io::read_blocks(plain, read, numbers);
      },
      [&](int64_t first, std::span<const float> numbers) {
        file.write_at(to_blocks(to.type, numbers, to.name),
                      position + place_of(to.type, part * numel + first));
      });
}

void write_all(const io::GgufPlan& plan, const std::vector<Renamed>& tensors,
               const std::vector<float>& divisors, const GgufFamily& family,
               const models::TransformerConfig& config, const std::filesystem::path& path) {
  io::File file = io::File::create(path);
  file.reserve(plan.file_bytes);
  file.write_at(std::as_bytes(std::span(plan.header)), 0);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const GgufTensor& to = plan.tensors[i];
    for (size_t part = 0; part < tensors[i].from.size(); ++part) {
      write_tensor(tensors[i].from[part], static_cast<int64_t>(part), to, plan.position(to), family,
                   config, file);
    }
  }
  if (!divisors.empty()) {
    file.write_at(std::as_bytes(std::span(divisors)), plan.position(plan.tensors.back()));
  }
  file.sync();
}

// A tensor of a folder, and the part of a GGUF tensor that it is.
struct NewTensor {
  const GgufTensor* from;
  int64_t part = 0;
  io::TensorSpec to;
};

std::vector<NewTensor> tensors_of(const io::GgufReader& file, const GgufFamily& family,
                                  int64_t experts, GgufType type) {
  std::vector<NewTensor> tensors;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name == "rope_freqs.weight") continue;  // it is rope_scaling in config.json
    const std::vector<std::string> names = hf_names(family, tensor.name, experts);
    if (names.empty()) {
      throw ConfigError(fmt::format("{}: tensor {} has no name in Hugging Face folders of {}",
                                    file.path().string(), io::quote_text(tensor.name),
                                    family.name));
    }
    std::vector<int64_t> shape = tensor.shape;
    if (names.size() > 1) {
      if (shape.size() != 3 || shape.front() != experts) {
        throw ConfigError(fmt::format("{}: tensor {} does not have {} experts",
                                      file.path().string(), io::quote_text(tensor.name), experts));
      }
      shape.erase(shape.begin());
    }
    for (size_t part = 0; part < names.size(); ++part) {
      tensors.push_back(
          {&tensor, static_cast<int64_t>(part), {names[part], scalar_type(type), shape}});
    }
  }
  return tensors;
}

void write_safetensors(const io::GgufReader& file, const GgufFamily& family,
                       const models::TransformerConfig& config, GgufType type,
                       const std::filesystem::path& path) {
  const std::vector<NewTensor> tensors = tensors_of(file, family, config.router.experts, type);
  std::vector<io::TensorSpec> specs;
  std::map<std::string, const NewTensor*> by_name;
  for (const NewTensor& tensor : tensors) {
    specs.push_back(tensor.to);
    by_name[tensor.to.name] = &tensor;
  }
  const io::SafetensorsPlan plan = io::plan_safetensors(specs, {{"format", "pt"}});
  io::File to = io::File::create(path);
  to.reserve(plan.file_bytes);
  to.write_at(std::as_bytes(std::span(plan.header)), 0);
  for (const io::TensorEntry& entry : plan.entries) {
    const NewTensor& tensor = *by_name.at(entry.name);
    const GgufTensor& from = *tensor.from;
    int64_t numel = 1;
    for (const int64_t size : entry.shape) numel *= size;
    convert_numbers(
        family, config, from.name, entry.shape, Direction::to_hf,
        [&](int64_t first, std::span<float> numbers) {
          file.read(from, tensor.part * numel + first, numbers);
        },
        [&](int64_t first, std::span<const float> numbers) {
          to.write_at(to_blocks(type, numbers, from.name),
                      plan.position(entry) + place_of(type, first));
        });
  }
  to.sync();
}

// Returns `of_quantized` if any matrix is quantized, f32 if there is none, otherwise the type of
// the last matrix.
GgufType type_in(const io::GgufReader& file, GgufType of_quantized) {
  GgufType type = GgufType::f32;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.shape.size() < 2) continue;
    if (io::elements_per_block(tensor.type) > 1) return of_quantized;
    type = tensor.type;
  }
  return type;
}

const char* dtype_name(GgufType type) {
  if (type == GgufType::f16) return "float16";
  return type == GgufType::bf16 ? "bfloat16" : "float32";
}

}  // namespace

void hf_to_gguf(const std::filesystem::path& folder, const std::filesystem::path& file,
                GgufType type) {
  require_new(file);
  const models::ModelSpecification specification = models::resolve_model({.path = folder.string()});
  const models::TransformerConfig& config = specification.transformer;
  const GgufFamily& family = find_gguf_family(config.family, folder.string());
  if (specification.weights.empty()) {
    throw ConfigError(fmt::format("{} contains no weights to convert", folder.string()));
  }
  GgufFields fields = model_fields(family, config);
  fields.emplace_back("general.name", io::GgufValue::of(folder.filename().string()));
  fields.emplace_back("general.file_type", io::GgufValue::of(file_type(type)));
  bool names_end = false;
  for (auto& field : tokenizer_fields(folder, config.vocabulary)) {
    names_end = names_end || field.first == "tokenizer.ggml.eos_token_id";
    fields.push_back(std::move(field));
  }
  for (auto& field : generation_fields(text::ModelFolder(folder), names_end)) {
    fields.push_back(std::move(field));
  }
  const WeightFolder directory(folder);
  directory.require_unquantized("convert");
  const std::vector<Renamed> tensors = tensors_of(directory, family, specification, type);
  std::vector<GgufTensor> listed;
  for (const Renamed& tensor : tensors) listed.push_back(tensor.to);
  const std::vector<float> divisors = frequency_divisors(config);
  if (!divisors.empty()) {
    listed.push_back({.name = "rope_freqs.weight",
                      .type = GgufType::f32,
                      .shape = {static_cast<int64_t>(divisors.size())}});
  }
  const io::GgufPlan plan = io::plan_gguf(fields, std::move(listed));
  write_whole(file, [&](const std::filesystem::path& temporary) {
    write_all(plan, tensors, divisors, family, config, temporary);
  });
}

void gguf_to_hf(const std::filesystem::path& file, const std::filesystem::path& folder,
                std::optional<GgufType> type, GgufType of_quantized) {
  require_new(folder);
  const io::GgufReader reader(file);
  const GgufFamily& family = find_gguf_family(reader);
  const GgufType as = type.value_or(type_in(reader, of_quantized));
  if (io::elements_per_block(as) > 1) {
    throw ConfigError(fmt::format("--type={}: a Hugging Face folder can have f32, f16 or bf16 only",
                                  io::gguf_type_name(as)));
  }
  nlohmann::ordered_json config = config_of(reader, family);
  config["dtype"] = dtype_name(as);
  config["eos_token_id"] = end_tokens_of(reader);
  write_whole(folder, [&](const std::filesystem::path& temporary) {
    io::make_folders(temporary);
    io::write_file_atomically(temporary / "config.json", config.dump(2) + "\n");
    std::map<std::string, std::string> files = tokenizer_files(reader);
    files.merge(generation_files(reader));
    for (const auto& [name, content] : files) {
      io::make_folders((temporary / name).parent_path());
      io::write_file_atomically(temporary / name, content);
    }
    const models::ModelSpecification specification =
        models::resolve_model({.path = temporary.string()});
    write_safetensors(reader, family, specification.transformer, as,
                      temporary / "model.safetensors");
  });
}

}  // namespace colossal::checkpoint
