#include "colossal/report/wandb.h"

#include <fmt/chrono.h>
#include <zlib.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "colossal/base/error.h"

namespace colossal::report {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlock = 32768, kPartHeader = 7;
constexpr int kWhole = 1, kFirst = 2, kMiddle = 3, kLast = 4;  // types of parts
constexpr std::string_view kFileHeader("\x3aW&B\xe1\xbe\0", 7);

// Field numbers of wandb_internal.proto.
namespace wandb_record {
constexpr uint32_t kNum = 1, kHistory = 2, kSummary = 3, kRun = 17, kExit = 18, kHeader = 21;
}
namespace wandb_run {
constexpr uint32_t kRunId = 1, kProject = 3, kConfig = 4, kDisplayName = 8, kStartTime = 17;
}
namespace wandb_item {  // of histories, summaries and configs
constexpr uint32_t kKey = 1, kNestedKey = 2, kValueJson = 16;
}
namespace wandb_update {  // of a history: items; of a summary and a config: updates
constexpr uint32_t kItem = 1, kStep = 2;
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void add_item(ProtobufWriter& list, uint32_t key_field, const std::string& key,
              const std::string& json) {
  ProtobufWriter item;
  item.bytes(key_field, key);
  item.bytes(wandb_item::kValueJson, json);
  list.bytes(wandb_update::kItem, item.encoded());
}

ProtobufWriter file_header() {
  ProtobufWriter version, header;
  version.bytes(1, "colossal");
  version.bytes(2, "0.70.0");  // min_consumer, as wandb writes it
  header.bytes(1, version.encoded());
  return header;
}

}  // namespace

WandbRun::WandbRun(const fs::path& directory, const std::string& project, const std::string& run,
                   const std::string& name,
                   const std::vector<std::pair<std::string, std::string>>& config)
    : start_(wall_time()) {
  const auto seconds = static_cast<std::time_t>(start_);
  const fs::path folder =
      directory / fmt::format("offline-run-{:%Y%m%d_%H%M%S}-{}", fmt::localtime(seconds), run);
  std::error_code error;
  fs::create_directories(folder / "files", error);
  if (error) throw IoError(fmt::format("cannot make {}: {}", folder.string(), error.message()));
  file_.emplace(folder / fmt::format("run-{}.wandb", run));
  file_->write(kFileHeader);
  write(wandb_record::kHeader, file_header());
  ProtobufWriter begun, settings, time;
  for (const auto& [key, value] : config) {
    add_item(settings, wandb_item::kKey, key,
             nlohmann::json::accept(value) ? value : nlohmann::json(value).dump());
  }
  time.varint(1, static_cast<int64_t>(seconds));
  begun.bytes(wandb_run::kRunId, run);
  begun.bytes(wandb_run::kProject, project);
  begun.bytes(wandb_run::kConfig, settings.encoded());
  begun.bytes(wandb_run::kDisplayName, name);
  begun.bytes(wandb_run::kStartTime, time.encoded());
  write(wandb_record::kRun, begun);
}

void WandbRun::write_scalars(int64_t step, const std::vector<Scalar>& scalars) {
  const double now = wall_time();
  ProtobufWriter history, summary;
  const auto add = [&](const std::string& key, const nlohmann::json& value) {
    add_item(history, wandb_item::kNestedKey, key, value.dump());
    add_item(summary, wandb_item::kNestedKey, key, value.dump());
  };
  for (const Scalar& scalar : scalars) {
    if (std::isfinite(scalar.value)) add(scalar.tag, scalar.value);
  }
  add("_step", step);
  add("_timestamp", now);
  add("_runtime", now - start_);
  ProtobufWriter number;
  number.varint(1, step);
  history.bytes(wandb_update::kStep, number.encoded());
  write(wandb_record::kSummary, summary);
  write(wandb_record::kHistory, history);
}

void WandbRun::end(bool failed) {
  ProtobufWriter ended;
  ended.varint(1, failed ? 1 : 0);
  ended.varint(2, static_cast<int64_t>(wall_time() - start_));
  write(wandb_record::kExit, ended);
}

void WandbRun::write(uint32_t field, const ProtobufWriter& content) {
  ProtobufWriter message;
  message.varint(wandb_record::kNum, ++num_records_);
  message.bytes(field, content.encoded());
  std::string_view rest = message.encoded();
  std::string out;
  for (bool first = true; first || !rest.empty(); first = false) {
    size_t room = kBlock - (static_cast<size_t>(file_->size()) + out.size()) % kBlock;
    if (room < kPartHeader) {
      out.append(room, '\0');
      room = kBlock;
    }
    const std::string_view part = rest.substr(0, room - kPartHeader);
    rest.remove_prefix(part.size());
    append_part(out, part,
                first ? (rest.empty() ? kWhole : kFirst) : (rest.empty() ? kLast : kMiddle));
  }
  file_->write(out);
}

void WandbRun::append_part(std::string& out, std::string_view data, int type) const {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<const Bytef*>(text.data());
  };
  const char kind = static_cast<char>(type);
  uLong checksum = ::crc32(0, bytes({&kind, 1}), 1);
  checksum = ::crc32(checksum, bytes(data), static_cast<uInt>(data.size()));
  append_little_endian(out, checksum, 4);
  append_little_endian(out, data.size(), 2);
  append_little_endian(out, static_cast<uint64_t>(type), 1);
  out.append(data);
}

}  // namespace colossal::report
