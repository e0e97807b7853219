// The first use of the device by this process.
#pragma once

namespace ebbtide::phantom {

// Called when a context takes its memory. The first call of a process leaves <pid>.begun in the folder of the output,
// by which a process that is killed is told from one that never used the device, and asks Python, where there is one
// in the process, to attach the watcher of `ebbtide dryrun`. Later calls do nothing.
void DeviceIsUsed();

}  // namespace ebbtide::phantom
