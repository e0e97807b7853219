// The words that the tide allocator shares with the models of other allocators.
#pragma once

#include "alloc/allocator.h"

namespace ebbtide::tide {

using alloc::Address;
using alloc::Allocator;
using alloc::Block;
using alloc::BlockId;
using alloc::DeviceMemory;
using alloc::Event;
using alloc::StreamId;
using alloc::Streams;
using alloc::Usage;

}  // namespace ebbtide::tide
