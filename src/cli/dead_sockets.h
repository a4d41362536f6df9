// Sockets of runs that were killed, which nobody else would remove.
#pragma once

namespace neap {

// Where this user's runs make them. One that takes a connection stays, whatever its name says: its process may be of
// another container that shares the folder. Throws nothing; what cannot be removed stays.
void remove_dead_sockets();

}  // namespace neap
