/* The border between the engine, which knows no torch, and the library that calls torch's kernels, which is compiled
 * for the torch of the user. Plain C, so that the two may come from different compilers.
 *
 * Functions that can fail return 0 or one of EBBTIDE_FAILED..., and then write one line to `error`. */
#ifndef EBBTIDE_RUN_KERNELS_ABI_H_
#define EBBTIDE_RUN_KERNELS_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EBBTIDE_KERNELS_VERSION 3
#define EBBTIDE_ERROR_BYTES 1024

/* The last: something that outlives the call lies in memory that the op was given. */
enum { EBBTIDE_FAILED = 1, EBBTIDE_FAILED_OUT_OF_MEMORY = 2, EBBTIDE_FAILED_KEPT = 3 };

/* An argument of an op. Which of the fields count follows from its kind. */
enum EbbtideValueKind {
  EBBTIDE_NONE,
  EBBTIDE_BOOL,     /* integer */
  EBBTIDE_INTEGER,  /* integer */
  EBBTIDE_REAL,     /* real */
  EBBTIDE_STRING,   /* text */
  EBBTIDE_INTEGERS, /* integers, count: also bools */
  EBBTIDE_REALS,    /* reals, count */
  EBBTIDE_TENSOR,   /* integer: its number */
  EBBTIDE_TENSORS,  /* integers, count: their numbers, -1 for None */
  EBBTIDE_SCALAR,   /* integer: its number among the scalars of the step */
  EBBTIDE_SCALARS,  /* integers, count */
  EBBTIDE_NAMED     /* type ("dtype", "device", "layout", "memory_format") and text */
};

typedef struct {
  int32_t kind;
  int64_t integer;
  double real;
  const char* text;
  const char* type;
  const int64_t* integers;
  const double* reals;
  size_t count;
} EbbtideValue;

typedef struct {
  const char* name;     /* "aten::mm" */
  const char* overload; /* "", "Tensor", ... */
  int32_t is_forward;
  int32_t only_views;            /* it yields views of what it is given and changes nothing */
  const EbbtideValue* arguments; /* all of the schema's, in its order */
  size_t argument_count;
  const int64_t* outputs; /* tensors */
  size_t output_count;
} EbbtideOp;

typedef struct {
  int64_t storage;
  const char* dtype;
  const int64_t* shape;
  const int64_t* stride;
  size_t dimensions;
  int64_t offset; /* in elements */
  int32_t made;   /* an op yields it */
} EbbtideTensor;

typedef struct {
  const EbbtideOp* ops;
  size_t op_count;
  const EbbtideTensor* tensors;
  size_t tensor_count;
  const int64_t* storage_bytes;
  const int64_t* storage_born; /* the op that makes it; -1: it is there before */
  size_t storage_count;
  const char* device; /* "cpu", "cuda:0": where all of it is */
} EbbtideProgram;

/* Where the memory of an op comes from while it runs. */
typedef struct {
  void* context;
  void* (*allocate)(void* context, size_t bytes);   /* NULL: there is none */
  int32_t (*release)(void* context, void* address); /* 0: it is not of this memory */
} EbbtideMemory;

typedef struct {
  int64_t storage;
  void* address;
  int64_t bytes;
} EbbtideMade;

typedef struct EbbtideKernelsProgram EbbtideKernelsProgram;

typedef struct {
  int32_t version; /* EBBTIDE_KERNELS_VERSION */

  int32_t (*create)(const EbbtideProgram* program, EbbtideKernelsProgram** out, char* error);
  void (*destroy)(EbbtideKernelsProgram* program);

  /* Calls an op. `made` has room for as many storages as the op has outputs. */
  int32_t (*run)(EbbtideKernelsProgram* program, int64_t op, const double* scalars, const EbbtideMemory* memory,
                 EbbtideMade* made, size_t* made_count, char* error);
  void (*bind)(EbbtideKernelsProgram* program, int64_t storage, void* address);
  /* Gives tensors that no op has made yet the shapes of the graph, so that any op can be run alone. */
  void (*pretend)(EbbtideKernelsProgram* program, int64_t op);

  /* The user's storage (a c10::StorageImpl) in place of one that is there before the step; kept until the program goes
   * or another takes its place. */
  int32_t (*attach)(EbbtideKernelsProgram* program, int64_t storage, void* storage_impl, char* error);
  /* Where the contents of such a storage are now, and how many bytes they are. */
  void* (*address)(EbbtideKernelsProgram* program, int64_t storage, int64_t* bytes);
  /* Its memory is at `address` from now on, and `release(owner)` is called when it no longer is. Contents are the
   * caller's to move. */
  void (*move)(EbbtideKernelsProgram* program, int64_t storage, void* address, void* owner,
               void (*release)(void* owner));
  /* Its memory is torch's own again, with the contents it had. */
  int32_t (*move_out)(EbbtideKernelsProgram* program, int64_t storage, char* error);

  /* Once before each step, on the thread that takes it: the stream that ops will run on; null on the CPU. Libraries
   * that keep memory for themselves get it now, from torch. */
  int32_t (*ready)(EbbtideKernelsProgram* program, void** stream, char* error);

  size_t (*random_bytes)(EbbtideKernelsProgram* program);
  void (*random_save)(EbbtideKernelsProgram* program, void* to);
  void (*random_load)(EbbtideKernelsProgram* program, const void* from);
} EbbtideKernels;

/* The one symbol of the library. */
typedef const EbbtideKernels* (*EbbtideKernelsEntry)(void);
#define EBBTIDE_KERNELS_ENTRY "ebbtide_torch_kernels"

#ifdef __cplusplus
}
#endif

#endif /* EBBTIDE_RUN_KERNELS_ABI_H_ */
