#include "colossal/plan/cluster_specification.h"

#include <fmt/format.h>

#include "colossal/base/toml.h"

namespace colossal::plan {
namespace {

constexpr double kLeastRate = 1;

void describe(ConfigSchema& schema, const std::string& type, ComputeRates& rates) {
  const auto add = [&](const char* key, std::optional<double>& rate, const std::string& help,
                       const char* unset) {
    schema.add(type + "." + key, &rate, help, {.minimum = kLeastRate, .unset = unset});
  };
  add("products", rates.products,
      "FLOP/s of large matrix products on one device: a GPU, or one core of a CPU while all cores "
      "compute.",
      "not given");
  add("attention", rates.attention, "FLOP/s of the forward pass of attention.", "half of products");
  add("attention_backward", rates.attention_backward, "FLOP/s of the backward pass of attention.",
      "half of products");
  add("elements", rates.elements, "Bytes/s that all other operators read and write.",
      "that of another type");
}

}  // namespace

void describe(ConfigSchema& schema, ClusterSpecification& cluster) {
  schema.add("hosts.ranks", &cluster.hosts.ranks,
             "Number of ranks on each host; with GPUs, the number of its GPUs.",
             {.minimum = 1, .unset = "all ranks"});
  schema.add("hosts.cores", &cluster.hosts.cores,
             "Number of CPU cores that compute for the ranks of a host. 0: ranks compute on GPUs.",
             {.minimum = 0});
  schema.add("hosts.memory", &cluster.hosts.memory,
             "Memory of a GPU, or of a host whose ranks compute on the CPU. Limits what a rank may "
             "use, unless memory.device_budget does.",
             {.minimum = 1, .unset = "no limit"});
  describe(schema, "bf16", cluster.bf16);
  describe(schema, "fp32", cluster.fp32);
  describe(schema, "fp64", cluster.fp64);
  schema.add("device.operator_seconds", &cluster.device.operator_seconds,
             "Time that an operator takes even if it computes nothing.",
             {.unit = "seconds", .minimum = 0});
  schema.add("device.half_rate_size", &cluster.device.half_rate_size,
             "The size of the smallest side of a matrix product at which it has half of the rate "
             "of large products.",
             {.minimum = 0});
  schema.add("device.logits", &cluster.device.logits,
             "Logits/s of which the cross-entropy and its gradient are computed, beside the "
             "products.",
             {.minimum = kLeastRate, .unset = "12 bytes of elements each"});
  schema.add("links.latency", &cluster.links.latency,
             "Time of a call between ranks of one host, even if it sends nothing.",
             {.unit = "seconds", .minimum = 0, .unset = "not given"});
  schema.add("links.bandwidth", &cluster.links.bandwidth,
             "Bytes/s that each rank sends to the other ranks of its host.",
             {.minimum = kLeastRate, .unset = "not given"});
  schema.add("links.network_latency", &cluster.links.network_latency,
             "Time of a call between hosts, even if it sends nothing.",
             {.unit = "seconds", .minimum = 0, .unset = "not given"});
  schema.add("links.network_bandwidth", &cluster.links.network_bandwidth,
             "Bytes/s that each host sends to other hosts, all its ranks together.",
             {.minimum = kLeastRate, .unset = "not given"});
  schema.add("links.overlap", &cluster.links.overlap,
             "Share of the time of asynchronous calls in which ranks compute at full speed. 0 if "
             "the cores that compute also send, 1 if sending costs them nothing.",
             {.minimum = 0, .maximum = 1});
  schema.add("links.host_bandwidth", &cluster.links.host_bandwidth,
             "Bytes/s with which a rank copies between its device and the memory of its host.",
             {.minimum = kLeastRate, .unset = "not given"});
  schema.add("links.nvme_bandwidth", &cluster.links.nvme_bandwidth,
             "Bytes/s with which a rank reads and writes NVMe.",
             {.minimum = kLeastRate, .unset = "not given"});
}

ClusterSpecification read_cluster(const std::filesystem::path& path) {
  ClusterSpecification cluster;
  ConfigSchema schema;
  describe(schema, cluster);
  schema.read_file(path);
  return cluster;
}

std::string cluster_file(const ClusterSpecification& cluster) {
  ClusterSpecification shown = cluster;
  ConfigSchema schema;
  describe(schema, shown);
  std::string text, section;
  const nlohmann::json values = schema.to_json();
  for (const ConfigSchema::KeyHelp& key : schema.key_helps()) {
    const size_t dot = key.key.find('.');
    const std::string of = key.key.substr(0, dot), name = key.key.substr(dot + 1);
    const nlohmann::json& value = values.at(of).at(name);
    if (value.is_null()) continue;
    if (of != section) text += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", of);
    section = of;
    text += fmt::format("{} = {}\n", name, to_toml(value));
  }
  return text;
}

}  // namespace colossal::plan
