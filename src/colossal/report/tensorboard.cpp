#include "colossal/report/tensorboard.h"

#include <unistd.h>

#include <chrono>
#include <system_error>

#include "colossal/base/error.h"
#include "colossal/report/crc32c.h"
#include "colossal/report/protobuf.h"

namespace colossal::report {
namespace {

// Field numbers of tensorflow/core/util/event.proto and tensorflow/core/framework/*.proto.
namespace event {
constexpr uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;
}
namespace event_summary {
constexpr uint32_t kValue = 1;
}
namespace summary_value {
constexpr uint32_t kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;
}
namespace summary_metadata {
constexpr uint32_t kPluginData = 1, kDataClass = 4;
constexpr int64_t kDataClassTensor = 2;
}  // namespace summary_metadata
namespace plugin_data {
constexpr uint32_t kPluginName = 1;
}
namespace tensor {
constexpr uint32_t kType = 1, kShape = 2, kStringValue = 8;
constexpr int64_t kTypeString = 7;
}  // namespace tensor

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  return name;
}

std::string record(std::string_view data) {
  std::string bytes;
  append_little_endian(bytes, data.size(), 8);
  append_little_endian(bytes, masked_crc32c(bytes), 4);
  bytes.append(data);
  append_little_endian(bytes, masked_crc32c(data), 4);
  return bytes;
}

std::string event_record(double wall_time, int64_t step, uint32_t field, std::string_view content) {
  ProtobufWriter message;
  message.fixed64(event::kWallTime, wall_time);
  message.varint(event::kStep, step);
  message.bytes(field, content);
  return record(message.encoded());
}

std::string text_metadata() {
  ProtobufWriter plugin;
  plugin.bytes(plugin_data::kPluginName, "text");
  ProtobufWriter metadata;
  metadata.bytes(summary_metadata::kPluginData, plugin.encoded());
  metadata.varint(summary_metadata::kDataClass, summary_metadata::kDataClassTensor);
  return metadata.encoded();
}

// Returns a message with a string tensor of no dimensions.
std::string text_tensor(const std::string& text) {
  ProtobufWriter message;
  message.varint(tensor::kType, tensor::kTypeString);
  message.bytes(tensor::kShape, "");
  message.bytes(tensor::kStringValue, text);
  return message.encoded();
}

// Creates an events file. Adds a number to the name if the same process has already created a file
// in the same second.
std::unique_ptr<OutputFile> create_events_file(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    throw IoError(fmt::format("cannot create {}: {}", directory.string(), error.message()));
  }
  const std::string name = fmt::format("events.out.tfevents.{:010d}.{}.{}",
                                       static_cast<int64_t>(now()), host_name(), ::getpid());
  std::filesystem::path path = directory / name;
  for (int number = 1; std::filesystem::exists(path); ++number) {
    path = directory / fmt::format("{}.{}", name, number);
  }
  return std::make_unique<OutputFile>(path, OutputFile::Mode::exclusive);
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& directory)
    : file_(create_events_file(directory)) {
  file_->write(event_record(now(), 0, event::kFileVersion, "brain.Event:2"));
}

void TensorBoardWriter::write_scalars(int64_t step, std::span<const Scalar> scalars,
                                      std::optional<double> wall_time) {
  ProtobufWriter message;
  for (const Scalar& scalar : scalars) {
    ProtobufWriter value;
    value.bytes(summary_value::kTag, scalar.tag);
    value.fixed32(summary_value::kSimpleValue, static_cast<float>(scalar.value));
    message.bytes(event_summary::kValue, value.encoded());
  }
  file_->write(event_record(wall_time.value_or(now()), step, event::kSummary, message.encoded()));
}

void TensorBoardWriter::write_text(int64_t step, const std::string& tag, const std::string& text,
                                   std::optional<double> wall_time) {
  ProtobufWriter value;
  value.bytes(summary_value::kTag, tag);
  value.bytes(summary_value::kTensor, text_tensor(text));
  value.bytes(summary_value::kMetadata, text_metadata());
  ProtobufWriter message;
  message.bytes(event_summary::kValue, value.encoded());
  file_->write(event_record(wall_time.value_or(now()), step, event::kSummary, message.encoded()));
}

}  // namespace colossal::report
