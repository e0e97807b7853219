/* What a program may tell the phantom, since kernels carry their arguments in a form that only they understand. C, so
 * that a dispatcher observer or an engine can find the functions with dlsym; none of them is there without a phantom.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Launches and copies of this thread up to the matching end belong to the operation `name`, whose accesses are declared
 * in between. `frame`: where in the program, or null. Operations may nest; the innermost name counts. */
void ebbtide_phantom_begin(const char* name, const char* frame);
void ebbtide_phantom_end(void);

/* The next operation of `stream` (a CUstream or cudaStream_t) reads or writes these bytes of device memory. Without a
 * name it is that of the operation that was begun. */
void ebbtide_phantom_declare(void* stream, const void* address, size_t bytes, int is_write, const char* name);

/* The bytes change hands without the driver's knowledge: a caching allocator reuses them. For the race checker,
 * whatever `stream` is not ordered after is a race with the next owner on it. */
void ebbtide_phantom_reused(void* stream, const void* address, size_t bytes, const char* name);

/* A caching allocator of the program takes the bytes back. What the host had waited for, or was told to be over when it
 * asked, is no longer looked at for them. */
void ebbtide_phantom_released(const void* address, size_t bytes);

/* Whether an event or stream that the host finds over when it asks orders what it submits next, as a wait does; it does
 * unless it is said not to. An allocator that asks at every request would else hide what the program leaves unordered.
 * Queries of this thread between query_begin and query_end order in any case. */
void ebbtide_phantom_set_queries_order(int queries_order);
void ebbtide_phantom_query_begin(void);
void ebbtide_phantom_query_end(void);

/* A kernel of that duration on the virtual clock, in `stream`. */
void ebbtide_phantom_kernel(void* stream, const char* name, int64_t nanoseconds);

/* Times by operators (EBBTIDE_PHANTOM_TIMES=model). An operator of a framework begins and ends in one thread, and may
 * nest. The kernels that it starts by itself, outside those that nest in it, take as long as one operation that reads
 * and writes these tensors; it is told when it ends, and may be left out (count 0) where it launched none. */
enum { EBBTIDE_PHANTOM_READ = 0, EBBTIDE_PHANTOM_CHANGED = 1, EBBTIDE_PHANTOM_RESULT = 2 };
typedef struct ebbtide_phantom_tensor {
  const void* storage; /* its address, by which views of one storage are known */
  size_t storage_bytes;
  const int64_t* sizes;
  int dims;
  int scalar_type; /* c10::ScalarType */
  size_t item_size;
  int role;
} ebbtide_phantom_tensor;
int ebbtide_phantom_times_ops(void);
void ebbtide_phantom_op_begin(void);
int ebbtide_phantom_op_launched(void);
void ebbtide_phantom_op_end(const char* kind, const ebbtide_phantom_tensor* tensors, size_t count);
/* When all that was submitted will be over, on the virtual clock. */
int64_t ebbtide_phantom_ready(void);
/* Kernels that were timed by their number of threads alone. */
int64_t ebbtide_phantom_guessed_launches(void);

/* Where the content of device memory lies, for tests that check it; null where it has none, or is not in one piece. The
 * caller has to wait for the device by itself. */
void* ebbtide_phantom_content(const void* device_address, size_t bytes);

/* Writes the statistics now, for a program that handles the signal (or 0) that is about to end it. Once per process. */
void ebbtide_phantom_finish(int signal);

/* Where the calling thread is in the program: 1, with text in `out`, or 0. And what writes the program's record, before
 * the phantom ends the process. Null: none of them any more. */
typedef int (*ebbtide_phantom_line)(char* out, size_t size);
typedef void (*ebbtide_phantom_finish_program)(void);
void ebbtide_phantom_set_program(ebbtide_phantom_line line, ebbtide_phantom_finish_program finish);
/* The rank by which people know this process. */
void ebbtide_phantom_set_rank(int rank);

/* Writes the statistics as they are, for a process that may be killed without notice. */
void ebbtide_phantom_keep(void);

int ebbtide_phantom_checks_races(void);
int64_t ebbtide_phantom_race_count(void);
int64_t ebbtide_phantom_undeclared_launches(void);
/* The virtual time that the host has reached, in nanoseconds. */
int64_t ebbtide_phantom_now(void);

#ifdef __cplusplus
}

namespace ebbtide::phantom {

/* Of the innermost operation that the calling thread has begun; empty where there is none. */
const char* CurrentName();
const char* CurrentFrame();
bool InDeclaredOperation();
/* Whether what the calling thread finds over by asking is ordered before what it submits next. */
bool QueriesOrder();

}  // namespace ebbtide::phantom
#endif
