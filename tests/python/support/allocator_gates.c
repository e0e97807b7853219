/* Streams whose work does not end before the host waits for it, so that a test knows which events are over. Preloaded
 * before the phantom: `gate_close` puts an operation into a stream that holds it up; waits for an event open what
 * stands before the event, waits for a stream or the device all of it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>

enum { kStreams = 64, kEvents = 1 << 16 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;

/* By stream: how many gates were closed, and how many of them are open. */
static struct Stream {
  void* handle;
  long closed, open;
} streams[kStreams];
static int stream_count;

/* By event, in a hash table: where it was recorded last. */
static struct Event {
  void* handle;
  struct Stream* stream;
  long position;
} events[kEvents];

static struct Stream* stream_of(void* handle) {
  for (int i = 0; i < stream_count; ++i)
    if (streams[i].handle == handle) return &streams[i];
  if (stream_count == kStreams) return &streams[0];
  streams[stream_count].handle = handle;
  return &streams[stream_count++];
}

static struct Event* event_of(void* handle) {
  unsigned long slot = ((unsigned long)handle >> 4) % kEvents;
  while (events[slot].handle && events[slot].handle != handle) slot = (slot + 1) % kEvents;
  events[slot].handle = handle;
  return &events[slot];
}

struct Gate {
  struct Stream* stream;
  long number;
};
static struct Gate gates[1 << 20];
static long gate_count;

static void wait_at(void* data) {
  struct Gate* gate = data;
  pthread_mutex_lock(&mutex);
  while (gate->stream->open < gate->number) pthread_cond_wait(&opened, &mutex);
  pthread_mutex_unlock(&mutex);
}

static void open_up_to(struct Stream* stream, long number) {
  if (stream->open < number) stream->open = number;
  pthread_cond_broadcast(&opened);
}

static void open_all(void) {
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < stream_count; ++i) open_up_to(&streams[i], streams[i].closed);
  pthread_mutex_unlock(&mutex);
}

#define NEXT(name) ((int (*)())dlsym(RTLD_NEXT, name))

int gate_close(void* handle) {
  pthread_mutex_lock(&mutex);
  struct Gate* gate = &gates[gate_count++ % (1 << 20)];
  gate->stream = stream_of(handle);
  gate->number = ++gate->stream->closed;
  pthread_mutex_unlock(&mutex);
  return NEXT("cudaLaunchHostFunc")(handle, wait_at, gate);
}

static void record(void* event, void* handle) {
  pthread_mutex_lock(&mutex);
  struct Event* known = event_of(event);
  known->stream = stream_of(handle);
  known->position = known->stream->closed;
  pthread_mutex_unlock(&mutex);
}

int cudaEventRecord(void* event, void* stream) {
  record(event, stream);
  return NEXT("cudaEventRecord")(event, stream);
}

int cudaEventRecordWithFlags(void* event, void* stream, unsigned flags) {
  record(event, stream);
  return NEXT("cudaEventRecordWithFlags")(event, stream, flags);
}

int cudaEventSynchronize(void* event) {
  pthread_mutex_lock(&mutex);
  struct Event* known = event_of(event);
  if (known->stream) open_up_to(known->stream, known->position);
  pthread_mutex_unlock(&mutex);
  return NEXT("cudaEventSynchronize")(event);
}

int cudaStreamSynchronize(void* handle) {
  pthread_mutex_lock(&mutex);
  struct Stream* stream = stream_of(handle);
  open_up_to(stream, stream->closed);
  pthread_mutex_unlock(&mutex);
  return NEXT("cudaStreamSynchronize")(handle);
}

int cudaDeviceSynchronize(void) {
  open_all();
  return NEXT("cudaDeviceSynchronize")();
}

int cudaFree(void* pointer) {
  open_all();
  return NEXT("cudaFree")(pointer);
}
