// The end of the process, however it comes: exit, _exit, or a signal that kills.
#pragma once

namespace ebbtide::phantom {

// Has the statistics written at the end. Called once, when the device is made.
void WatchForTheEnd();

}  // namespace ebbtide::phantom
