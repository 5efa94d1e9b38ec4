// TCP sockets for the store and for the connections between launchers. All sockets here are
// non-blocking and close-on-exec. An `address` is a numeric string, such as "10.0.0.1" or
// "fd00::1"; a `port` is from 1 to 65535, unless noted otherwise.
#pragma once

#include <string>
#include <vector>

#include "colossal/base/file_descriptor.h"

namespace colossal::cluster {

// Returns the addresses of a host name, without duplicates. If `host` is an address, returns it.
// Throws ConfigError if the name has no address.
std::vector<std::string> resolve(const std::string& host);

// Returns the addresses of this machine's interfaces, the loopback addresses included.
std::vector<std::string> own_addresses();

// Whether the address is in 127.0.0.0/8 or is ::1.
bool is_loopback(const std::string& address);

// Returns the address from which this machine would connect to `address`. Sends nothing. Throws
// ConfigError if there is no route.
std::string address_towards(const std::string& address);

// Returns a socket that is bound to `address` and `port` with SO_REUSEADDR and does not listen yet.
// port: may be 0, for any free port. Throws IoError if the socket cannot be bound.
FileDescriptor bind_socket(const std::string& address, int port);
// Returns the port to which the socket is bound.
int bound_port(const FileDescriptor& socket);
// Makes a bound socket accept connections. Throws IoError if that fails.
void listen_on(const FileDescriptor& socket);

// Returns the next connection that waits at a listening socket; an empty descriptor if there is
// none. Does not wait.
FileDescriptor accept_connection(const FileDescriptor& listener);
// Returns the address of the other end of a connection.
std::string peer_address(const FileDescriptor& socket);

// Connects to `address` and `port` from `source`, an address of this machine. Waits at most a
// second. Returns the connection, or an empty descriptor if it is refused or not made in this time.
// Throws IoError if `source` cannot be bound.
FileDescriptor try_connect(const std::string& source, const std::string& address, int port);

// Makes a connection fail about 4 s after the peer's machine or the network to it is lost, even if
// no process sends anything.
void detect_lost_peer(const FileDescriptor& socket);

// Makes the connection send each piece at once, however small, although the peer has not
// acknowledged those before. What is held back is lost if the connection is closed with unread
// bytes.
void send_at_once(const FileDescriptor& socket);

}  // namespace colossal::cluster
