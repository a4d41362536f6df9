// SIGINT and SIGTERM as a wish: what is under way comes to its end, what is there is written.
#pragma once

namespace neap {

// From now on the signals end no process; they are noted.
void stop_when_asked();
bool is_asked_to_stop();

}  // namespace neap
