// Admits the launchers of other hosts that connect to the launcher of the first host
// (control_channel.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "colossal/base/file_descriptor.h"
#include "colossal/cluster/host_table.h"
#include "colossal/cluster/line_socket.h"

namespace colossal::cluster {

class Reception {
 public:
  // Listens at hosts.own_address() and `port`. Throws IoError if it cannot.
  Reception(HostTable hosts, int port);

  std::vector<int> fds() const;  // for poll()

  // Called with the index of a launcher's host and the connection. Returns false, without using
  // the connection, if a launcher of this host has joined already.
  using Admit = std::function<bool(int index, LineSocket& connection)>;
  // Accepts new connections, without waiting, and calls admit() for each connection that has said
  // where it comes from. Logs and refuses launchers that cannot belong to the job: their mistake
  // must not end the job.
  void receive(const Admit& admit);

 private:
  void accept_all();

  HostTable hosts_;
  FileDescriptor listener_;
  std::vector<LineSocket> guests_;  // have not said yet where they come from
};

}  // namespace colossal::cluster
