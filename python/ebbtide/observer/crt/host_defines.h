// The words that CUDA's headers put before declarations. PyPI's CUDA packages come without this file, which belongs to
// the device compiler; for a host compiler the words mean nothing.
#pragma once

#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __align__(bytes)
#define __cudart_builtin__
#define __device_builtin__
#define __device_builtin_surface_type__
#define __device_builtin_texture_type__
#define __specialization_static static
#define CUDARTAPI
#define CUDARTAPI_CDECL
