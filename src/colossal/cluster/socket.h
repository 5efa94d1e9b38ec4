// TCP sockets for the store and for the connections between launchers. All sockets are non-blocking
// and close-on-exec. An address is a numeric string, such as "10.0.0.1" or "fd00::1".
#pragma once

#include <string>
#include <vector>

#include "colossal/base/file_descriptor.h"

namespace colossal::cluster {

// Returns the addresses of a host name, without duplicates; for an address, the address itself.
// Throws ConfigError, naming the host, if it has none.
std::vector<std::string> resolve(const std::string& host);

// Returns the addresses of this machine's interfaces.
std::vector<std::string> own_addresses();

// Whether the address is in 127.0.0.0/8 or is ::1.
bool is_loopback(const std::string& address);

// Returns the address of this machine's interface that faces `address`, without sending anything.
// Throws ConfigError if there is no route.
std::string address_towards(const std::string& address);

// Returns a socket bound to `address`:`port` (0: any free port) with SO_REUSEADDR, not listening
// yet. Throws IoError.
FileDescriptor bind_socket(const std::string& address, int port);
int bound_port(const FileDescriptor& socket);
void listen_on(const FileDescriptor& socket);  // throws IoError

// Returns the next pending connection; empty if there is none. Does not wait.
FileDescriptor accept_connection(const FileDescriptor& listener);
std::string peer_address(const FileDescriptor& socket);

// Connects from the own address `source` to `address`:`port`. Returns an empty descriptor if
// nothing listens there or there is no answer within a second. Throws IoError if `source` cannot be
// bound.
FileDescriptor try_connect(const std::string& source, const std::string& address, int port);

// From now on, the socket fails within 4 s after the peer's machine or the network to it is gone,
// even if no process sends anything.
void detect_lost_peer(const FileDescriptor& socket);

}  // namespace colossal::cluster
