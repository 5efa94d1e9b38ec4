// TCP sockets by host name or address, for the store's socket and for the launchers' channel.
// All are close-on-exec. An address is a numeric string, "10.0.0.1" or "fd00::1".
#pragma once

#include <string>
#include <vector>

#include "colossal/base/file_descriptor.h"

namespace colossal::cluster {

// The addresses of a host name (or of an address: itself), none twice. Throws ConfigError naming
// the host when it has none.
std::vector<std::string> resolve(const std::string& host);

// The addresses of this machine's interfaces.
std::vector<std::string> own_addresses();

// 127.0.0.0/8 and ::1.
bool is_loopback(const std::string& address);

// The address of the interface through which this machine reaches `address`; nothing is sent.
// Throws ConfigError when there is no route.
std::string address_towards(const std::string& address);

// Bound to `address`:`port` (0: any free one), reusable, and not listening yet. Throws IoError.
FileDescriptor bind_socket(const std::string& address, int port);
int bound_port(const FileDescriptor& socket);
void listen_on(const FileDescriptor& socket);

// The next connection that waits, non-blocking, or none.
FileDescriptor accept_connection(const FileDescriptor& listener);
std::string peer_address(const FileDescriptor& socket);

// Connects from `source` to `address`:`port`, non-blocking from then on; none when nobody listens
// there, or nobody answers within a second.
FileDescriptor try_connect(const std::string& source, const std::string& address, int port);

// Makes the kernel notice within 4 s when the peer's machine or the network to it is gone, whatever
// the processes at the two ends are doing.
void detect_lost_peer(const FileDescriptor& socket);

}  // namespace colossal::cluster
