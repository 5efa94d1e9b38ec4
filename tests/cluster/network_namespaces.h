// Two "hosts" on one machine: network namespaces that a virtual cable joins.
#pragma once

#include <string>
#include <vector>

namespace colossal::cluster {

// Needs root and iproute2. Named by process, removed at the end.
class NetworkNamespaces {
 public:
  NetworkNamespaces();
  ~NetworkNamespaces();
  NetworkNamespaces(const NetworkNamespaces&) = delete;
  NetworkNamespaces& operator=(const NetworkNamespaces&) = delete;

  static std::string address(int host) { return host == 0 ? "10.213.0.1" : "10.213.0.2"; }

  // What to put before a command to run it on that host.
  std::vector<std::string> on(int host) const;

  void cut_cable();
  void mend_cable();  // after cut_cable()

 private:
  void set_blackholes(const std::string& command);

  std::string name_[2];
};

}  // namespace colossal::cluster
