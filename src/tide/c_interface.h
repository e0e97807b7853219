/* The tide allocator as a shared library (libebbtide_tide.so), with the functions that torch's CUDAPluggableAllocator
 * asks for. All may be called from any thread. Numbers of devices are CUDA's; a stream is a cudaStream_t. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory for work of the stream from now on. Where there is none: calls what ebbtide_tide_on_out_of_memory set, which
 * may throw, then returns null. */
void* ebbtide_tide_malloc(ssize_t bytes, int device, void* stream);
/* The same for torch's MemPool, where null is enough: torch raises the error. */
void* ebbtide_tide_pool_malloc(ssize_t bytes, int device, void* stream);
/* Frees memory at the present point of the stream that it was allocated for; `bytes` and `stream` are ignored. Null,
 * and what is not ours, is passed over. */
void ebbtide_tide_free(void* address, ssize_t bytes, int device, void* stream);
/* Work of another stream uses the memory too. What is not ours is passed over. */
void ebbtide_tide_record_stream(void* address, void* stream);
/* Gives back to the device what is free and finished, on all devices. */
void ebbtide_tide_empty_cache(void);
/* Sets the capacity to that share of the device's memory, 0 to 1. Any other share is ignored, as is one that is
 * refused. */
void ebbtide_tide_memory_fraction(double fraction, int device);

/* The most that is taken of the device; what a job can always have, and the most that it may have (`limit` < 0: no
 * limit). Both return 0, or -1 with the reason as ebbtide_tide_last_error of this thread. */
int ebbtide_tide_set_capacity(int device, int64_t bytes);
int ebbtide_tide_set_quota(int device, int job, int64_t guaranteed, int64_t limit);
/* Requests on the stream are the job's from now on; a negative number: nobody's. Returns as above. */
int ebbtide_tide_set_job(int device, void* stream, int job);
/* Why the last call of this thread that failed did; empty where none has. Valid until the next one fails. */
const char* ebbtide_tide_last_error(void);

/* JSON, as TideAllocator::Statistics; valid until the next call of this thread. Null: nothing was allocated there. */
const char* ebbtide_tide_statistics(int device);

/* What ebbtide_tide_malloc calls before it returns null; null: nothing. For all threads and devices. */
void ebbtide_tide_on_out_of_memory(void (*handler)(const char* message));

#ifdef __cplusplus
}
#endif
