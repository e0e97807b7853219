/* How contents of device memory are asked for and told by whoever computes what skipped kernels would have written: the
 * values of python/ebbtide/observer. C, found with dlsym, as declare.h. All of it is in the order in which the program
 * submits its work, whatever the streams.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Asked where the host reads device memory of which nothing is known (`known` 0), or what rests on the assumption
 * `origin` (`known` 1; `out` holds it). Unknown: writes what is assumed to `out` and returns 1, or 2 where it
 * is true after all, or 0 for zeros;
 * `out` is null where it would be too large for anything but zeros. */
typedef int (*ebbtide_phantom_on_read)(const void* device_address, size_t bytes, int known, uint32_t origin, void* out);

/* From now on somebody follows what kernels do: a launch inside of an operation forgets nothing by itself. */
void ebbtide_phantom_watch_values(ebbtide_phantom_on_read on_read);

/* The calling thread runs an operation whose results will be told; may nest. `leave` returns how many kernels were
 * launched in it, without those of operations inside. `launched` is the same up to now. */
void ebbtide_phantom_enter(void);
int64_t ebbtide_phantom_leave(void);
int64_t ebbtide_phantom_launched(void);

/* 1: all of these bytes are known. The number of what they rest on, 0 where they are true. */
int ebbtide_phantom_knows(const void* device_address, size_t bytes, uint32_t* origin);
int ebbtide_phantom_read(const void* device_address, size_t bytes, void* out, uint32_t* origin);
void ebbtide_phantom_write(const void* device_address, size_t bytes, const void* data, uint32_t origin);
void ebbtide_phantom_forget(const void* device_address, size_t bytes);

#ifdef __cplusplus
}

#include "base/units.h"

namespace ebbtide::phantom {

class Device;

// A kernel is launched: what is known of memory is forgotten, as it may write any of it, unless the kernel is part of
// an operation whose results will be told.
void NoteLaunch(Device& device);

// What the host gets of memory without content. True: `out` holds it; false: nobody knows, and it is zeros. `is_true`
// becomes false where it is not known to be true. `out` null: the same, without an answer.
bool ReadKnown(Device& device, uint64_t from, Bytes bytes, std::byte* out, bool& is_true);

}  // namespace ebbtide::phantom
#endif
