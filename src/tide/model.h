// The tide allocator among the models that a trace can run through.
#pragma once

#include "alloc/make.h"

namespace ebbtide::tide {

alloc::AllocatorModel Model();

}  // namespace ebbtide::tide
