// The tide allocator over a modelled device.
#include "tide/model.h"

#include "tide/tide.h"

namespace ebbtide::tide {

alloc::AllocatorModel Model() {
  return {"tide", "Ebbtide's own: streams share what they free as soon as the free is scheduled", false,
          [](const alloc::PytorchOptions&, DeviceMemory& device, Streams& streams) -> std::unique_ptr<Allocator> {
            return std::make_unique<TideAllocator>(device, streams);
          }};
}

}  // namespace ebbtide::tide
