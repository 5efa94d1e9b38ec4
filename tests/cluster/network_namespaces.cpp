#include "tests/cluster/network_namespaces.h"

#include <unistd.h>

#include "tests/cluster/test_process.h"

namespace colossal::cluster {

NetworkNamespaces::NetworkNamespaces() {
  const std::string base = "colossal-" + std::to_string(getpid());
  name_[0] = base + "-a";
  name_[1] = base + "-b";
  for (const std::string& name : name_) {
    run_command({"ip", "netns", "add", name});
    run_command({"ip", "-n", name, "link", "set", "lo", "up"});
  }
  run_command({"ip", "-n", name_[0], "link", "add", "cable", "type", "veth", "peer", "name",
               "cable", "netns", name_[1]});
  for (int host = 0; host < 2; ++host) {
    run_command({"ip", "-n", name_[host], "address", "add", address(host) + "/24", "dev", "cable"});
    run_command({"ip", "-n", name_[host], "link", "set", "cable", "up"});
  }
}

NetworkNamespaces::~NetworkNamespaces() {
  for (const std::string& name : name_) run_command({"ip", "netns", "delete", name});
}

std::vector<std::string> NetworkNamespaces::on(int host) const {
  return {"ip", "netns", "exec", name_[host]};
}

// Packets vanish, as when a switch dies. If an interface were down, senders would get an error.
void NetworkNamespaces::cut_cable() {
  set_blackholes("add");
}

void NetworkNamespaces::mend_cable() {
  set_blackholes("delete");
}

void NetworkNamespaces::set_blackholes(const std::string& command) {
  for (const std::string& name : name_) {
    for (const char* addresses : {"10.213.0.0/25", "10.213.0.0/30"}) {
      run_command({"ip", "-n", name, "route", command, "blackhole", addresses});
    }
  }
}

}  // namespace colossal::cluster
